#include "spectral/near_far_order.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>

#include "spectral/mirrored_sweep_kernel.hpp"
#include "spectral/normal_law.hpp"
#include "spectral/phase.hpp"
#include "spectral/score_rows.hpp"
#include "spectral/unit_lanes.hpp"

namespace rope::spectral {
namespace {

constexpr std::int64_t kMostRowBytes = std::int64_t{32} << 20;  // of the rows that a thread holds

/// Coefficients of the window that starts at `origin`: z_n e^{i origin omega_n}.
CoefficientBatch shifted(std::span<const double> omega, const CoefficientBatch& batch, std::int64_t origin) {
  CoefficientBatch turned = batch;
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    const Phase e = phase_at(static_cast<double>(origin), omega[n]);
    double *re = turned.re.data() + n * turned.stride, *im = turned.im.data() + n * turned.stride;
    for (std::size_t p = 0; p < batch.n_pairs; ++p) {
      const double x = re[p], y = im[p];
      re[p] = x * e.cos - y * e.sin;
      im[p] = x * e.sin + y * e.cos;
    }
  }
  return turned;
}

void gaussian_order(std::span<const double> omega, const WindowMoments& moments, std::int64_t window,
                    const CoefficientBatch& unit, std::vector<double>& order) {
  const std::size_t pairs = unit.n_pairs;
  std::vector<double> near_mean(pairs), near_variance(pairs), far_mean(pairs), far_variance(pairs);
  moments.evaluate(shifted(omega, unit, window + 1), near_mean, near_variance);
  moments.evaluate(shifted(omega, unit, 2 * window + 1), far_mean, far_variance);
  order.resize(pairs);
  for (std::size_t p = 0; p < pairs; ++p)
    order[p] = chance_above_zero(far_mean[p] - near_mean[p], near_variance[p] + far_variance[p]);
}

/// Appends the values of `side` that have one of `other` within `reach`; both in rising order.
void close_values(std::span<const double> side, std::span<const double> other, double reach,
                  std::vector<double>& close) {
  close.clear();
  std::size_t next = 0;
  for (const double value : side) {
    while (next < other.size() && other[next] < value - reach) ++next;
    if (next < other.size() && other[next] <= value + reach) close.push_back(value);
  }
}

/// 0: a lane of zeros; NaN or infinite: one that is not finite.
double magnitude(const CoefficientBatch& batch, std::size_t lane) {
  double sum = 0;
  for (std::size_t n = 0; n < batch.n_freq; ++n)
    sum += std::abs(batch.re[n * batch.stride + lane]) + std::abs(batch.im[n * batch.stride + lane]);
  return sum;
}

/// The exact order of the lanes of one vector, with the memory of one thread.
class GroupOrder {
 public:
  GroupOrder(const SweepBasis& basis, std::int64_t window)
      : rows_(basis), omega_(basis.omega()), window_(window), count_(static_cast<std::size_t>(window)) {
    const std::int64_t row_bytes = 2 * window * static_cast<std::int64_t>(sizeof(double));
    const auto lanes = static_cast<std::int64_t>(ScoreRows::lanes());
    kept_ = static_cast<std::size_t>(std::clamp<std::int64_t>(kMostRowBytes / row_bytes, 1, lanes));
    values_.resize(2 * count_ * kept_);
  }

  /// Lanes [first, end). Few at a time where rows are long: the vector is then computed several times over.
  void run(const CoefficientBatch& unit, std::size_t first, std::size_t end, std::vector<double>& exact) {
    for (std::size_t from = first; from < end; from += kept_) {
      const std::size_t kept = std::min(kept_, end - from);
      rows_.evaluate(unit, from, kept, window_ + 1, 2 * window_, values_);
      for (std::size_t i = 0; i < kept; ++i) {
        const double size = magnitude(unit, from + i);
        if (size == 0) continue;
        exact[from + i] = std::isfinite(size)
                              ? share(unit, from + i, std::span(values_).subspan(2 * count_ * i, 2 * count_))
                              : std::numeric_limits<double>::quiet_NaN();
      }
    }
  }

 private:
  /// values: the scores of `lane` at M+1 ... 3M.
  double share(const CoefficientBatch& unit, std::size_t lane, std::span<const double> values) {
    const double *re = unit.re.data() + lane, *im = unit.im.data() + lane;
    const double reach = 2 * score_error_bound(omega_, re, im, unit.stride);
    std::optional<std::int64_t> above = counter_.count(values.first(count_), values.last(count_), reach);
    if (!above) above = count_again(unit, lane, values, reach);
    return static_cast<double>(*above) / (static_cast<double>(count_) * static_cast<double>(count_));
  }

  /// With float64 summation of the scores that are too close to call: they may be many, or ties.
  std::int64_t count_again(const CoefficientBatch& unit, std::size_t lane, std::span<const double> values,
                           double reach) {
    sorted_.assign(values.begin(), values.end());
    const std::span<double> near = std::span(sorted_).first(count_), far = std::span(sorted_).last(count_);
    std::sort(near.begin(), near.end());
    std::sort(far.begin(), far.end());
    close_values(near, far, reach, close_near_);
    close_values(far, near, reach, close_far_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::vector<double>& close = i < count_ ? close_near_ : close_far_;
      const bool doubtful = std::binary_search(close.begin(), close.end(), values[i]);
      const double distance = static_cast<double>(window_ + 1) + static_cast<double>(i);
      sorted_[i] = doubtful ? direct_score(omega_, unit.re.data() + lane, unit.im.data() + lane, unit.stride,
                                           0.0, distance)
                            : values[i];
    }
    std::sort(near.begin(), near.end());
    std::sort(far.begin(), far.end());
    return count_above(near, far);
  }

  ScoreRows rows_;
  std::span<const double> omega_;
  std::int64_t window_;
  std::size_t count_, kept_ = 1;
  OrderCounter counter_;
  std::vector<double> values_, sorted_, close_near_, close_far_;
};

}  // namespace

NearFarOrder near_far_order(const SweepBasis& basis, const WindowMoments& moments, std::int64_t window,
                            const CoefficientBatch& batch) {
  if (window < 1 || window > kMostNearFar) throw std::logic_error("near-far order: M out of range");
  const std::size_t pairs = batch.n_pairs;
  std::vector<double> scale;  // neither it nor a constant changes the order
  const CoefficientBatch unit = unit_lanes(batch, scale);
  NearFarOrder order;
  gaussian_order(basis.omega(), moments, window, unit, order.gaussian);
  order.exact.assign(pairs, 0.0);

  const std::size_t lanes = ScoreRows::lanes();
  const auto groups = static_cast<std::int64_t>((pairs + lanes - 1) / lanes);
  std::exception_ptr failure;
#pragma omp parallel if (groups > 1)
  {
    std::optional<GroupOrder> thread;
#pragma omp for schedule(dynamic)
    for (std::int64_t g = 0; g < groups; ++g) {
      try {
        if (!thread) thread.emplace(basis, window);
        const std::size_t first = static_cast<std::size_t>(g) * lanes;
        thread->run(unit, first, std::min(pairs, first + lanes), order.exact);
      } catch (...) {
#pragma omp critical
        failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
  return order;
}

std::int64_t count_above(std::span<const double> near, std::span<const double> far) {
  std::int64_t pairs = 0;
  std::size_t below = 0;  // of near
  for (const double score : far) {
    while (below < near.size() && near[below] < score) ++below;
    pairs += static_cast<std::int64_t>(below);
  }
  return pairs;
}

std::size_t OrderCounter::bucket(double value) const {
  return static_cast<std::size_t>(std::clamp((value - low_) * scale_, 0.0, last_));
}

std::optional<std::int64_t> OrderCounter::count(std::span<const double> near, std::span<const double> far,
                                                double reach) {
  constexpr std::uint32_t kFew = 8;  // of a bucket: compared one by one
  if (near.empty()) return 0;
  const std::size_t buckets = 4 * near.size();  // most are empty: a far score then needs no comparison
  const auto [low, high] = std::minmax_element(near.begin(), near.end());
  low_ = *low;
  last_ = static_cast<double>(buckets - 1);
  scale_ = last_ / (*high - *low);
  if (!std::isfinite(scale_)) scale_ = 0;
  // Counting sort by bucket: first_[b] becomes the place of bucket b's first score.
  first_.assign(buckets + 2, 0);
  place_.resize(near.size());
  for (std::size_t i = 0; i < near.size(); ++i) {
    place_[i] = static_cast<std::uint32_t>(bucket(near[i]));
    ++first_[place_[i] + 2];
  }
  for (std::size_t b = 2; b < buckets + 2; ++b) first_[b] += first_[b - 1];
  sorted_.resize(near.size());
  for (std::size_t i = 0; i < near.size(); ++i) sorted_[first_[place_[i] + 1]++] = near[i];
  const auto at = [&](std::size_t place) { return sorted_.begin() + static_cast<std::ptrdiff_t>(place); };
  for (std::size_t b = 0; b < buckets; ++b)
    if (first_[b + 1] - first_[b] > kFew) std::sort(at(first_[b]), at(first_[b + 1]));

  std::int64_t pairs = 0;
  for (const double score : far) {
    const double under = score - reach, over = score + reach;
    const std::size_t from = bucket(under), until = bucket(over);
    pairs += first_[from];
    if (first_[from] == first_[until + 1]) continue;
    for (std::size_t b = from; b <= until; ++b) {
      const std::uint32_t start = first_[b], end = first_[b + 1];
      if (end - start > kFew) {
        const auto below = std::lower_bound(at(start), at(end), under);
        if (below != at(end) && *below <= over) return std::nullopt;
        pairs += below - at(start);
        continue;
      }
      for (std::uint32_t i = start; i < end; ++i) {
        if (sorted_[i] >= under && sorted_[i] <= over) return std::nullopt;
        pairs += sorted_[i] < under;
      }
    }
  }
  return pairs;
}

}  // namespace rope::spectral
