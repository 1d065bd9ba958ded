#include "spectral/score_law.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "spectral/phase.hpp"
#include "spectral/score_law_kernel.hpp"

namespace rope::spectral {
namespace {

constexpr std::int64_t kBlock = 2 * static_cast<std::int64_t>(kLawOffsets);
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double edge_at(int edge) { return -ScoreLaw::kReach + static_cast<double>(edge) / ScoreLaw::kPerUnit; }

/// e^{i c omega} at the centres c of neighbouring blocks: turned from one to the next, made anew every
/// kReseed.
class BlockPhases {
 public:
  explicit BlockPhases(std::span<const double> omega) : omega_(omega), now_(omega.size()) {
    for (const double w : omega) step_.push_back(phase_at(static_cast<double>(kBlock), w));
  }
  /// Distances start ... start + kBlock - 1; called for start = 0, kBlock, 2 kBlock, ...
  void move_to(std::int64_t start) {
    const bool fresh = start / kBlock % kReseed == 0;
    const double centre = static_cast<double>(start) + 0.5 * static_cast<double>(kBlock - 1);
    for (std::size_t n = 0; n < now_.size(); ++n) {
      const Phase p = now_[n], q = step_[n];
      now_[n] = fresh ? phase_at(centre, omega_[n])
                      : Phase{p.cos * q.cos - p.sin * q.sin, p.cos * q.sin + p.sin * q.cos};
    }
  }
  const Phase& operator[](std::size_t n) const { return now_[n]; }
  std::size_t size() const { return now_.size(); }

 private:
  static constexpr std::int64_t kReseed = 16;
  std::span<const double> omega_;
  std::vector<Phase> now_, step_;
};

/// Coefficients of the lanes that count, in units of a bin, by vectors of lanes; and the bins of one block.
class LawLanes {
 public:
  LawLanes(const CoefficientBatch& batch, std::span<const int> pairs, std::span<const double> norm,
           std::size_t lanes)
      : lanes_(lanes), h_(pairs.size()) {
    for (std::size_t lane = 0; lane < batch.n_pairs; ++lane)
      if (norm[lane] > 0) lane_.push_back(lane);
    re_.resize(groups() * h_ * lanes);
    im_.resize(re_.size());
    const double unit = std::numbers::sqrt2 * ScoreLaw::kPerUnit;
    for (std::size_t i = 0; i < lane_.size(); ++i)
      for (std::size_t n = 0; n < h_; ++n) {
        const std::size_t to = (i / lanes * h_ + n) * lanes + i % lanes;
        const std::size_t from = static_cast<std::size_t>(pairs[n]) * batch.stride + lane_[i];
        re_[to] = batch.re[from] / norm[lane_[i]] * unit;
        im_[to] = batch.im[from] / norm[lane_[i]] * unit;
      }
    for (auto* values : {&turned_re_, &turned_im_}) values->resize(h_ * lanes);
    for (auto* bins : {&above_, &below_}) bins->resize(kLawOffsets * lanes);
  }

  std::int64_t used() const { return std::ssize(lane_); }
  std::size_t groups() const { return (lane_.size() + lanes_ - 1) / lanes_; }
  std::size_t lanes() const { return lanes_; }
  /// Lanes of a group that are no padding.
  std::size_t lanes_of(std::size_t group) const { return std::min(lanes_, lane_.size() - group * lanes_); }
  const std::int32_t* above(std::size_t t) const { return above_.data() + t * lanes_; }
  const std::int32_t* below(std::size_t t) const { return below_.data() + t * lanes_; }

  void turn(std::size_t group, const BlockPhases& phases) {
    for (std::size_t n = 0; n < h_; ++n) {
      const double c = phases[n].cos, s = phases[n].sin;
      const double* re = re_.data() + (group * h_ + n) * lanes_;
      const double* im = im_.data() + (group * h_ + n) * lanes_;
      for (std::size_t i = 0; i < lanes_; ++i) {
        turned_re_[n * lanes_ + i] = static_cast<float>(re[i] * c - im[i] * s);
        turned_im_[n * lanes_ + i] = static_cast<float>(re[i] * s + im[i] * c);
      }
    }
  }
  void fill_bins(const float* table) {
    law_block({table, turned_re_.data(), turned_im_.data(), h_, lanes_, above_.data(), below_.data()},
              kLawOffsets / kLawTile);
  }

 private:
  std::size_t lanes_, h_;
  std::vector<std::size_t> lane_;
  std::vector<double> re_, im_;  // [group][h][lanes]
  std::vector<float> turned_re_, turned_im_;
  std::vector<std::int32_t> above_, below_;
};

/// Counters of 32 bits, emptied into those of 64 before they can run over: they fit the first-level cache.
class BinCounts {
 public:
  explicit BinCounts(ScoreLaw::Counts& counts) : counts_(counts), few_(ScoreLaw::kBins, 0) {}
  ~BinCounts() { empty(); }

  /// The first `reach` distances of the block that the lanes hold.
  void take(const LawLanes& vectors, std::size_t group, std::int64_t reach) {
    const std::size_t count = vectors.lanes_of(group);
    const auto half = static_cast<std::int64_t>(kLawOffsets);
    for (std::int64_t t = std::max<std::int64_t>(0, half - reach); t < half; ++t)
      add(vectors.below(static_cast<std::size_t>(t)), count);
    for (std::int64_t t = 0; t < reach - half; ++t) add(vectors.above(static_cast<std::size_t>(t)), count);
    pending_ += count * static_cast<std::size_t>(kBlock);
    if (pending_ > std::size_t{1} << 30) empty();
  }

 private:
  void add(const std::int32_t* bins, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) ++few_[static_cast<std::size_t>(bins[i])];
  }
  void empty() {
    for (std::size_t bin = 0; bin < few_.size(); ++bin) {
      counts_[bin] += few_[bin];
      few_[bin] = 0;
    }
    pending_ = 0;
  }

  ScoreLaw::Counts& counts_;
  std::vector<std::uint32_t> few_;
  std::size_t pending_ = 0;
};

}  // namespace

double normal_below(double x) { return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2); }

void ScoreLaw::add(const Counts& counts, std::int64_t vectors, std::int64_t window, double coordinate_error) {
  if (vectors == 0) return;
  mass_.resize(kBins, 0.0);
  for (int bin = 0; bin < kBins; ++bin)
    mass_[static_cast<std::size_t>(bin)] +=
        static_cast<double>(counts[static_cast<std::size_t>(bin)]) / static_cast<double>(window);
  vectors_ += vectors;
  coordinate_error_ = std::max(coordinate_error_, coordinate_error);
}

double ScoreLaw::share_below(int edge) const {
  if (vectors_ == 0) return kNaN;
  double below = 0;
  for (int bin = 0; bin <= edge; ++bin) below += mass_[static_cast<std::size_t>(bin)];
  return below / static_cast<double>(vectors_);
}

ScoreLaw::Kolmogorov ScoreLaw::kolmogorov() const {
  if (vectors_ == 0) return {kNaN, kNaN};
  double at_edges = 0, at_most = 0, below = 0, normal = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    // From the lower to the upper edge of the bin, both distribution functions only rise.
    const double next = below + mass_[static_cast<std::size_t>(bin)] / static_cast<double>(vectors_);
    const double next_normal = bin <= kInner ? normal_below(edge_at(bin)) : 1.0;
    at_most = std::max({at_most, next - normal, next_normal - below});
    if (bin <= kInner) at_edges = std::max(at_edges, std::abs(next - next_normal));
    below = next;
    normal = next_normal;
  }
  // Rounding moves a score, and so an edge, by coordinate_error_: Phi changes by 0.4 times that.
  const double rounding = 0.4 * coordinate_error_ + 1e-12;
  return {at_edges, at_most - at_edges + rounding};
}

ScoreCounter::ScoreCounter(std::span<const double> omega, std::int64_t window)
    : omega_(omega.begin(), omega.end()), window_(window) {
  if (omega_.empty() || window < 1) throw std::logic_error("ScoreCounter: no frequency, or window < 1");
  table_.reserve(2 * kLawOffsets * omega_.size());
  for (std::size_t first = 0; first < kLawOffsets; first += kLawTile)
    for (const double w : omega_) {
      for (std::size_t r = 0; r < kLawTile; ++r)
        table_.push_back(static_cast<float>(std::cos((static_cast<double>(first + r) + 0.5) * w)));
      for (std::size_t r = 0; r < kLawTile; ++r)
        table_.push_back(static_cast<float>(std::sin((static_cast<double>(first + r) + 0.5) * w)));
    }
}

double ScoreCounter::coordinate_error() const {
  // Sums of h products, factors rounded once each, of magnitude at most sqrt(2 h) in all; then the shift by
  // half the bins, at most half a unit in the last place of kBins.
  const double h = static_cast<double>(omega_.size());
  return (h + 4) * 0x1p-24 * std::sqrt(2 * h) + ScoreLaw::kBins * 0x1p-24 / ScoreLaw::kPerUnit;
}

std::int64_t ScoreCounter::count(const CoefficientBatch& batch, std::span<const int> pairs,
                                 std::span<const double> norm, ScoreLaw::Counts& counts) const {
  if (pairs.size() != omega_.size() || norm.size() < batch.n_pairs)
    throw std::logic_error("ScoreCounter::count: sizes");
  LawLanes vectors(batch, pairs, norm, law_lanes());
  BlockPhases phases(omega_);
  BinCounts bins(counts);
  for (std::int64_t start = 0; start < window_; start += kBlock) {
    phases.move_to(start);
    for (std::size_t group = 0; group < vectors.groups(); ++group) {
      vectors.turn(group, phases);
      vectors.fill_bins(table_.data());
      bins.take(vectors, group, std::min(kBlock, window_ - start));
    }
  }
  return vectors.used();
}

}  // namespace rope::spectral
