#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "profiler/head_scan.hpp"
#include "profiler/pair_sample.hpp"
#include "spectral/band_certificate.hpp"
#include "spectral/exact_response.hpp"
#include "spectral/response_envelope.hpp"
#include "spectral/separation.hpp"

namespace rope {

/// What the audit needs of a grid at a window; made once, for any thread.
class AuditGrid {
 public:
  AuditGrid(std::shared_ptr<const WindowedGrid> grid, const spectral::SplitRule& split);

  const WindowedGrid& grid() const { return *grid_; }
  const std::vector<double>& factors() const { return factors_; }
  const spectral::SeparationCheck& separation() const { return separation_; }
  bool geometric() const { return geometric_; }
  /// Null where H is empty.
  const spectral::BandCertificates* certificates() const { return certificates_ ? &*certificates_ : nullptr; }
  const spectral::ExactResponse& exact() const;

 private:
  std::shared_ptr<const WindowedGrid> grid_;
  std::vector<double> factors_;
  spectral::SeparationCheck separation_;
  bool geometric_;
  std::optional<spectral::BandCertificates> certificates_;
  mutable std::once_flag exact_once_;
  mutable std::optional<spectral::ExactResponse> exact_;
};

/// The last used of them.
class AuditGrids {
 public:
  explicit AuditGrids(const spectral::SplitRule& split) : split_(split) {}
  std::shared_ptr<const AuditGrid> of(const std::shared_ptr<const WindowedGrid>& grid);

 private:
  static constexpr std::size_t kMost = 32;
  spectral::SplitRule split_;
  std::mutex mutex_;
  std::list<std::shared_ptr<const AuditGrid>> recent_;
};

/// How Prop. 1 fares on some pairs with U_H > 0.
struct BandTally {
  std::int64_t vectors = 0, mean_holds = 0, variance_holds = 0;
  double mean_share = 0, variance_share = 0;  ///< largest of the bounds used
  std::int64_t violations = 0;  ///< bounds that fail where Prop. 1 is proved (SeparationCheck::proved)

  void add(const BandTally& other);
};

/// How the inequalities of theory §8 fare on some pairs.
struct EnvelopeTally {
  std::int64_t pairs = 0;          ///< with zeta and T
  std::int64_t without_floor = 0;  ///< of these, pairs with U_H = 0: no f_pos
  std::int64_t violations_response = 0, violations_norm_floor = 0;
  double largest_response_ratio = 0, largest_norm_floor_ratio = 0;  ///< of zeta / T, of f_pos / r_H
  BandTally band;

  /// Counts one pair of a head of h pairs. True where it breaks an inequality.
  bool add(const spectral::EnvelopeTerms& terms, double zeta, std::size_t h);
  void add(const EnvelopeTally& other);
};

/// One pair worth naming, by its place.
struct AuditedPair {
  std::int64_t pair = -1;  ///< number of the pair in its head (PartSlots); -1: none
  double response = 0, envelope = 0, norm_share = 0, norm_floor = 0;  ///< zeta, T, r_H, f_pos (NaN: none)
  bool breaks_response = false, breaks_norm_floor = false;
  double ratio() const { return response / envelope; }
};

/// What one block of pairs adds to an audit.
struct AuditBlock : ScanResult {
  std::shared_ptr<const AuditGrid> grid;
  std::int64_t all_pairs = 0, undefined = 0, non_finite = 0;  ///< all, and those left out
  std::int64_t without_distance = 0;  ///< pairs of a window of one token: there is no step
  std::int64_t evaluated_again = 0;   ///< in float64
  std::vector<AuditRow> rows;         ///< of the pairs with zeta
  EnvelopeTally tally;
  AuditedPair nearest, worst;  ///< largest zeta / T, of all and of those that break an inequality
};

/// zeta from the fast sweep that lies within this share of T is evaluated again by plain summation in
/// float64: ten times what the fast sweep is held to (1e-5), so that what is not evaluated again breaks
/// nothing.
inline constexpr double kSweepMargin = 1e-4;

std::unique_ptr<AuditBlock> audit_block(const ScanBlock& block, const std::shared_ptr<const AuditGrid>& grid);

}  // namespace rope
