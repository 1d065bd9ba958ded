#include "spectral/simd_targets.hpp"

#include <hwy/highway.h>

#include <cstdlib>
#include <stdexcept>

#include "spectral/adjacent_sweep.hpp"

namespace rope::spectral {
namespace {

/// Targets compiled in and offered by this machine, best first (highway gives better ones lower bits).
std::vector<std::int64_t> usable_targets() {
  static const std::int64_t machine = hwy::SupportedTargets();  // before any restriction
  std::vector<std::int64_t> targets;
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    // The baseline of the build is always there; others where the processor has them.
    if (HWY_TARGETS & target & (machine | HWY_STATIC_TARGET)) targets.push_back(target);
  }
  return targets;
}

void use(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(targets);
}

}  // namespace

std::vector<std::string> simd_available() {
  std::vector<std::string> names;
  for (const std::int64_t target : usable_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string simd_in_use() {
  obey_simd_environment();
  auto& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
  for (const std::int64_t target : usable_targets()) {
    if (HWY_CHOSEN_TARGET_SHIFT(target) & (std::int64_t{1} << chosen.GetIndex()))
      return hwy::TargetName(target);
  }
  return hwy::TargetName(HWY_STATIC_TARGET);
}

void select_simd(std::string_view name) {
  const std::vector<std::int64_t> targets = usable_targets();
  std::int64_t all = 0;
  std::string valid = "auto";
  for (const std::int64_t target : targets) {
    all |= target;
    valid += std::string(", ") + hwy::TargetName(target);
  }
  if (name == "auto") return use(all);
  for (const std::int64_t target : targets) {
    if (name == hwy::TargetName(target)) return use(target);
  }
  throw std::invalid_argument("unknown or unavailable SIMD target \"" + std::string(name) +
                              "\"; valid here are " + valid);
}

void obey_simd_environment() {
  static const bool done = [] {
    const char* name = std::getenv("ROPE_PROFILER_SIMD");
    if (name != nullptr && *name != '\0') select_simd(name);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace rope::spectral
