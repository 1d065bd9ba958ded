#include "spectral/vector_columns.hpp"

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
