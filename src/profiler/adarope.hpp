#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "profiler/cache_run.hpp"

namespace rope {

struct AdaropeOptions {
  std::optional<double> reference_length;  ///< keys; L_ref is the group nearest in ln L, else the first group
  std::function<void(std::int64_t examples)> progress;  ///< called as examples are done, in every pass
};

/// The AdaScale fit of one head (theory §12; A 4.3, 36). Length group i is the i-th used query by position of
/// every example; its values are means over examples, then over tasks, of rows that have weights. The lists
/// run over the groups with L >= L_ref by rising L; they are empty where nothing was computed.
struct HeadFit {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  int layer = 0, head = 0;
  double tau = kNone, gamma = kNone;  ///< lambda(L) = (1/tau) [ln(1 + max(L, L_ref) / L_ref)]^gamma
  double residual = kNone;            ///< root mean square of ln lambda less its fit
  double reference_length = kNone;    ///< L_ref: L of its group
  double logit_variance = kNone;      ///< mean over rows of the population variance of the logits
  std::string reason;                 ///< why there is no fit, a sentence; empty where there is one

  std::vector<double> lengths;           ///< L, keys
  std::vector<double> effective_length;  ///< exp of the mean of ln E_2
  std::vector<double> lambda;            ///< that holds E_2 at its value at L_ref; NaN = none in (0, 1e4]
  std::vector<double> nope_scale;        ///< the same for normal logits without position; NaN = none
  std::vector<double> xi;                ///< [h] ln omega of the longest example; NaN = does not turn

  bool fitted() const { return reason.empty(); }
};

struct AdaropeFit {
  std::vector<HeadFit> heads;           ///< of run.heads(), layer-major
  int passes = 0;                       ///< over the vectors
  std::int64_t rows = 0, left_out = 0;  ///< rows of attention, and those of them without weights
  std::vector<std::string> warnings;
};

/// Fits every head by bisection on the logit scale, some points per pass over the cache (ScaleSearch), so
/// that memory grows with heads times queries, not with keys or examples. Heads with an attention softcap get
/// no fit. Throws UserError where the cache does not hold every key.
AdaropeFit fit_adarope(const CacheRun& run, const AdaropeOptions& options);

/// Throws UserError naming file and task that do not have key_coverage = "full".
void require_full_coverage(const CacheRun& run, const std::string& what_for, const std::string& hint);

}  // namespace rope
