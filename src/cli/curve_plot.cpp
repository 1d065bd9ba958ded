#include "cli/curve_plot.hpp"

#include <algorithm>
#include <cmath>

namespace rope::cli {

PlotCurve::PlotCurve(std::string name, std::int64_t rows) : name_(std::move(name)), rows_(rows) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  bins_.assign(static_cast<std::size_t>(std::min(rows, kMostBins)), {kInfinity, -kInfinity});
}

void PlotCurve::add(double y) {
  const auto bins = std::ssize(bins_);
  // next_ * bins fits: rows < 2^25, bins <= 2^12.
  Span& bin = bins_[static_cast<std::size_t>(next_++ * bins / rows_)];
  bin.low = std::min(bin.low, y);
  bin.high = std::max(bin.high, y);
}

double PlotCurve::least() const {
  double least = bins_.front().low;
  for (const Span& bin : bins_) least = std::min(least, bin.low);
  return least;
}

double PlotCurve::largest() const {
  double largest = bins_.front().high;
  for (const Span& bin : bins_) largest = std::max(largest, bin.high);
  return largest;
}

PlotCurve::Span PlotCurve::span(double first, double last) const {
  // Bin i stands at i / (bins - 1) of the width.
  const double steps = static_cast<double>(bins_.size() - 1);
  const double from = first * steps, until = last * steps;
  const auto at = [&](double x) {
    const double below = std::floor(x);
    const auto i = static_cast<std::size_t>(below);
    const std::size_t j = std::min(i + 1, bins_.size() - 1);
    const double w = x - below;
    return Span{(1 - w) * bins_[i].low + w * bins_[j].low, (1 - w) * bins_[i].high + w * bins_[j].high};
  };
  Span result = at(from);
  const auto add = [&](const Span& one) {
    result.low = std::min(result.low, one.low);
    result.high = std::max(result.high, one.high);
  };
  add(at(until));
  for (double i = std::ceil(from); i <= until; ++i) add(bins_[static_cast<std::size_t>(i)]);
  return result;
}

std::pair<double, double> y_range(const PlotScene& scene) {
  double low = scene.curves.front().least(), high = scene.curves.front().largest();
  for (const PlotCurve& curve : scene.curves) {
    low = std::min(low, curve.least());
    high = std::max(high, curve.largest());
  }
  if (low < high) return {low, high};
  const double room = low != 0 ? 0.5 * std::abs(low) : 1.0;
  return {low - room, high + room};
}

std::vector<double> round_ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  if (!(power > 0) || !std::isfinite(power)) return {};
  const double digit = rough / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double k = std::ceil(low / step); k * step <= high; ++k) {
    if (!ticks.empty() && k * step <= ticks.back()) break;  // too fine for float64
    ticks.push_back(k * step + 0.0);
  }
  return ticks;
}

}  // namespace rope::cli
