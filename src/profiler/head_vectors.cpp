#include "profiler/head_vectors.hpp"

#include <cmath>

namespace rope {
namespace {

void undo_rotation(const HeadSetting& head, std::span<const long long> positions, std::vector<double>& rows) {
  const int turn_back = head.layer->reversed ? 1 : -1;
  spectral::rotate_rows(rows.data(), positions.size(), head.query.block->head_dim, *head.lanes, positions,
                        turn_back);
}

// Re sum z e^{-i m omega} is the score of the conjugate coefficients: mirror both sides instead.
void turn_forward(const HeadSetting& head, int dim, std::vector<double>& rows) {
  for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(dim))
    for (int lane : head.lanes->b) rows[first + lane] = -rows[first + lane];
}

// x / sqrt(mean(y^2) + epsilon), y the vector as it stands after the rotary step (its rotary lanes times A).
void normalise(const HeadSetting& head, double attention_factor, int dim, double epsilon,
               std::vector<double>& rows) {
  for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(dim)) {
    double* row = rows.data() + first;
    double rotary = 0, tail = 0;
    for (int lane : head.lanes->a) rotary += row[lane] * row[lane];
    for (int lane : head.lanes->b) rotary += row[lane] * row[lane];
    for (int lane : head.lanes->still) rotary += row[lane] * row[lane];
    for (int lane : head.lanes->tail) tail += row[lane] * row[lane];
    const double factor =
        1.0 /
        std::sqrt((attention_factor * attention_factor * rotary + tail) / static_cast<double>(dim) + epsilon);
    for (int lane = 0; lane < dim; ++lane) row[lane] *= factor;
  }
}

}  // namespace

void load_content_vectors(const HeadSetting& head, ActivationFile::Side side,
                          std::span<const std::int64_t> slots, std::span<const long long> positions,
                          std::vector<double>& rows) {
  const SideSource& source = side == ActivationFile::Side::kQuery ? head.query : head.key;
  const int dim = source.block->head_dim;
  rows.resize(slots.size() * static_cast<std::size_t>(dim));
  for (std::size_t i = 0; i < slots.size(); ++i)
    convert_elements(source.block->type, source.block->at(source.head, slots[i]),
                     static_cast<std::size_t>(dim), rows.data() + i * static_cast<std::size_t>(dim));
  if (source.rotation == Rotation::kPost) undo_rotation(head, positions, rows);
  if (head.layer->reversed) turn_forward(head, dim, rows);
  if (head.layer->norm_after_epsilon)
    normalise(head, source.attention_factor, dim, *head.layer->norm_after_epsilon, rows);
  if (side == ActivationFile::Side::kQuery && head.layer->query_temperature)
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const double temperature = head.layer->query_temperature->at(positions[i]);
      for (int lane = 0; lane < dim; ++lane) rows[i * static_cast<std::size_t>(dim) + lane] *= temperature;
    }
}

}  // namespace rope
