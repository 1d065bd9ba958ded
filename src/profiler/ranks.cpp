#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "profiler/ranking.hpp"

namespace rope {
namespace {

/// Calls f(first, last) for every run [first, last) of equal values in falling order; `order` names them.
template <class F>
void for_ties(std::span<const double> values, std::vector<std::size_t>& order, F f) {
  order.resize(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [values](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    f(first, last);
  }
}

}  // namespace

std::vector<double> competition_ranks(std::span<const double> values) {
  std::vector<double> ranks(values.size());
  std::vector<std::size_t> order;
  for_ties(values, order, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = static_cast<double>(first + 1);
  });
  return ranks;
}

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<double> ranks(values.size());
  std::vector<std::size_t> order;
  for_ties(values, order, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = 0.5 * static_cast<double>(first + 1 + last);
  });
  return ranks;
}

double spearman(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = average_ranks(a), y = average_ranks(b);
  const double mean = 0.5 * static_cast<double>(x.size() + 1);  // of average ranks, whatever the ties
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
    xy += (x[i] - mean) * (y[i] - mean);
  }
  if (x.size() != y.size() || !(xx > 0) || !(yy > 0)) return std::numeric_limits<double>::quiet_NaN();
  return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

std::vector<double> susceptibility(std::span<const double> semantic, std::span<const double> positional) {
  const std::vector<double> r_s = competition_ranks(semantic), r_p = competition_ranks(positional);
  std::vector<double> w(r_s.size(), 0.5);
  if (w.size() < 2) return w;
  const double scale = 2.0 * static_cast<double>(w.size() - 1);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.5 + (r_s[i] - r_p[i]) / scale;
  return w;
}

const char* direction_name(Direction direction) {
  switch (direction) {
    case Direction::kSemantic:
      return "semantic";
    case Direction::kPositional:
      return "positional";
    default:
      return "none";
  }
}

std::vector<Direction> directions(std::span<const double> w_s) {
  std::vector<Direction> result(w_s.size(), Direction::kNone);
  if (std::all_of(w_s.begin(), w_s.end(), [&](double w) { return w == w_s.front(); })) return result;
  const std::vector<double> ranks = average_ranks(w_s);
  for (std::size_t i = 0; i < w_s.size(); ++i)
    result[i] =
        2.0 * ranks[i] <= static_cast<double>(w_s.size()) ? Direction::kSemantic : Direction::kPositional;
  return result;
}

}  // namespace rope
