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

void VectorColumns::put(const double* vectors, std::size_t count, int head_dim, const LaneMap& map,
                        std::size_t first) {
  constexpr std::size_t kTile = 8;  // vectors at a time: their rows stay in the first-level cache
  const auto width = static_cast<std::size_t>(head_dim);
  for (std::size_t tile = 0; tile < count; tile += kTile) {
    const std::size_t here = std::min(kTile, count - tile);
    std::size_t r = 0;
    for (const auto* lanes : {&map.a, &map.b, &map.still, &map.tail}) {
      for (const int lane : *lanes) {
        const double* from = vectors + tile * width + static_cast<std::size_t>(lane);
        double* to = row(r++) + first + tile;
        for (std::size_t t = 0; t < here; ++t) to[t] = from[t * width];
      }
    }
  }
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
