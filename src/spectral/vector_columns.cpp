#include "spectral/vector_columns.hpp"

#include <algorithm>
#include <stdexcept>

#include "spectral/phase.hpp"

namespace rope::spectral {

void VectorColumns::shape(const LaneMap& map, std::size_t count) {
  n_freq = map.omega.size();
  n_still = map.still.size();
  n_tail = map.tail.size();
  tokens = count;
  stride = padded(count);
  const std::size_t size = rows() * stride + kLaneAlign;
  if (values.size() < size) values.resize(size);
}

void VectorColumns::shape_like(const VectorColumns& other) {
  n_freq = other.n_freq;
  n_still = other.n_still;
  n_tail = other.n_tail;
  tokens = other.tokens;
  stride = other.stride;
  if (values.size() < rows() * stride + kLaneAlign) values.resize(rows() * stride + kLaneAlign);
}

namespace {

/// Lane of each row.
std::vector<int> row_lanes(const LaneMap& map) {
  std::vector<int> lanes(map.a);
  for (const std::vector<int>* more : {&map.b, &map.still, &map.tail})
    lanes.insert(lanes.end(), more->begin(), more->end());
  return lanes;
}

}  // namespace

void regroup_columns(const VectorColumns& from, const LaneMap& map, const LaneMap& other, VectorColumns& to) {
  const std::vector<int> lanes = row_lanes(map), wanted = row_lanes(other);
  if (lanes.size() != from.rows() || wanted.size() != lanes.size())
    throw std::logic_error("regroup_columns: maps of another head");
  std::vector<std::size_t> row_of_lane(lanes.size());
  for (std::size_t r = 0; r < lanes.size(); ++r) row_of_lane[static_cast<std::size_t>(lanes[r])] = r;
  to.shape(other, from.tokens);
  for (std::size_t r = 0; r < wanted.size(); ++r)
    std::copy_n(from.row(row_of_lane[static_cast<std::size_t>(wanted[r])]), from.stride, to.row(r));
}

double margin_rounding(const VectorColumns& query, std::size_t q, const VectorColumns& first,
                       const VectorColumns& second, std::size_t k, const RoundingUnits& units) {
  const double uq = units.query * units.query, uk = units.key * units.key;
  double sum = 0;
  for (std::size_t r = 0; r < query.rows(); ++r) {
    const double x = query.row(r)[q], one = first.row(r)[k], other = second.row(r)[k], apart = one - other;
    sum += x * x * (uq * apart * apart + uk * (one * one + other * other));
  }
  return sum;
}

PhaseColumns make_phase_columns(std::span<const double> omega, std::span<const long long> positions) {
  PhaseColumns phases;
  phases.n_freq = omega.size();
  phases.tokens = positions.size();
  phases.stride = padded(positions.size());
  phases.cos.assign(phases.n_freq * phases.stride + kLaneAlign, 0.0);
  phases.sin.assign(phases.n_freq * phases.stride + kLaneAlign, 0.0);
  for (std::size_t n = 0; n < omega.size(); ++n) {
    for (std::size_t t = 0; t < positions.size(); ++t) {
      const Phase e = phase_at(static_cast<double>(positions[t]), omega[n]);
      phases.cos[n * phases.stride + t] = e.cos;
      phases.sin[n * phases.stride + t] = e.sin;
    }
  }
  return phases;
}

}  // namespace rope::spectral
