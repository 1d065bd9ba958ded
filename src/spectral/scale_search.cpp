#include "spectral/scale_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rope::spectral {
namespace {

constexpr std::array<double, 17> kFirst = {
    kLeastLogitScale,  1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.5, 0.7, 1.0, 1.4, 2, 3, 5, 10, 100, 1e3,
    kLargestLogitScale};
static_assert(kFirst[ScaleSearch::kUnitPoint] == 1.0);

}  // namespace

std::span<const double> ScaleSearch::first_points() { return kFirst; }

void ScaleSearch::start(std::span<const double> values, double target) {
  target_ = target;
  known_.clear();
  take(kFirst, values);
}

void ScaleSearch::update(std::span<const double> values) {
  const std::vector<double> at = points_;
  take(at, values);
}

void ScaleSearch::take(std::span<const double> points, std::span<const double> values) {
  points_.clear();
  if (std::isnan(target_) ||
      std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) {
    state_ = State::kUndefined;
    return;
  }
  for (std::size_t i = 0; i < points.size(); ++i) known_.push_back({std::log(points[i]), values[i]});
  std::sort(known_.begin(), known_.end(), [](const Known& a, const Known& b) { return a.t < b.t; });
  const auto first_not_above =
      std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return !(k.value > target_); });
  if (first_not_above == known_.begin()) {
    state_ = State::kBelow;
    return;
  }
  if (first_not_above == known_.end()) {
    state_ = State::kAbove;
    return;
  }
  below_ = static_cast<std::size_t>(first_not_above - known_.begin()) - 1;
  const double low = known_[below_].t, high = known_[below_ + 1].t;
  if (high - low <= kScaleTolerance) {
    state_ = State::kFound;
    scale_ = std::exp(estimate());
    return;
  }
  choose_points();
}

// Where the polynomial t(value) through the four points around the root has the target, if it is of use; else
// the middle. Inside the interval.
double ScaleSearch::estimate() const {
  const double low = known_[below_].t, high = known_[below_ + 1].t, middle = low + (high - low) / 2;
  const std::size_t from = below_ > 0 ? below_ - 1 : 0, to = std::min(known_.size() - 1, below_ + 2);
  double t = 0;
  for (std::size_t i = from; i <= to; ++i) {
    double weight = 1;
    for (std::size_t j = from; j <= to; ++j)
      if (j != i) weight *= (target_ - known_[j].value) / (known_[i].value - known_[j].value);
    t += weight * known_[i].t;
  }
  return t > low && t < high ? t : middle;
}

void ScaleSearch::choose_points() {
  const double low = known_[below_].t, high = known_[below_ + 1].t, width = high - low, root = estimate();
  std::vector<double> at;
  constexpr int kEven = 7;
  for (int i = 1; i < kEven; ++i) at.push_back(low + width * i / kEven);
  for (double step : {0.02 * width, 4e-4 * width, 0.45 * kScaleTolerance})
    for (double t : {root - step, root + step}) at.push_back(t);
  std::sort(at.begin(), at.end());
  for (double t : at) {
    const double scale = std::exp(t);
    const bool inside = std::log(scale) > low && std::log(scale) < high;
    if (inside && (points_.empty() || scale > points_.back())) points_.push_back(scale);
  }
}

}  // namespace rope::spectral
