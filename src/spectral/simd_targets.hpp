#pragma once

#include <string>
#include <string_view>
#include <vector>

// Include before any highway header. The vectors of SVE have no fixed size and cannot be kept in arrays; NEON
// covers those machines. (HWY_WANT_SSE4 must not be set: it would make SSE4 a condition of the build.)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

namespace rope::spectral {

/// Makes every kernel use one of simd_available(), or the best one for "auto". Throws std::invalid_argument
/// with a sentence that lists the valid names. Not to be called while a kernel runs.
void select_simd(std::string_view name);

/// Obeys the environment variable ROPE_PROFILER_SIMD, once; called by everything that dispatches. Throws
/// std::invalid_argument as select_simd does.
void obey_simd_environment();

}  // namespace rope::spectral
