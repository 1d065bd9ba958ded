#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "interventions/intervention.hpp"
#include "profiler/profile_file.hpp"

namespace rope {

/// What a preview predicts (theory §7, what-if), in the order of the table `preview`.
enum class PreviewScore : int {
  kSemantic,
  kPositional,
  kNormShare,
  kEffectiveLength,      ///< virtual E_2
  kLogitSpread,          ///< sd of S(m) over the window
  kPositionalFixedNorm,  ///< Positional Score with the baseline's U in the denominator
  kCount
};
inline constexpr std::size_t kPreviewScores = static_cast<std::size_t>(PreviewScore::kCount);
const char* preview_score_name(PreviewScore score);  ///< name of its column

/// One score of a task under one candidate; NaN = undefined or not computed.
struct PreviewValue {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double value = kNone;                            ///< over the plan's heads, then examples
  double change = kNone;                           ///< mean over examples of the change against the baseline
  double change_low = kNone, change_high = kNone;  ///< 95 % bootstrap interval over examples
  bool operator==(const PreviewValue& other) const;  ///< NaN equals NaN
};

/// One task under one candidate, or its baseline.
struct PreviewRow {
  std::optional<Intervention> intervention;  ///< none: the baseline, which has values and no changes
  bool in_plan = false, in_sweep = false;    ///< a candidate of the plan, a point of --alpha-sweep; or both
  std::int64_t examples = 0;                 ///< the scores are over, at most
  std::array<PreviewValue, kPreviewScores> score;

  bool operator==(const PreviewRow&) const = default;
  std::string candidate() const { return intervention ? intervention->id() : "baseline"; }
  const PreviewValue& of(PreviewScore which) const { return score[static_cast<std::size_t>(which)]; }
};

/// With what the previews of a plan were made.
struct PreviewFacts {
  std::string share_split;         ///< of the norm share: the profile's
  std::string window, window_cap;  ///< the profile's settings: window of the scores
  std::string trust, backend, simd;
  std::int64_t resamples = 0;
  std::uint64_t seed = 0;
  std::vector<ProfileInput> inputs;  ///< the caches
};

}  // namespace rope
