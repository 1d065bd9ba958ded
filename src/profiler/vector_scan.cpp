#include "profiler/vector_scan.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{16} << 20;

void scan_row(const double* values, int count, VectorScan::Side& side) {
  bool zero = true, finite = true;
  for (int i = 0; i < count; ++i) {
    zero &= values[i] == 0.0;
    finite &= std::isfinite(values[i]);
  }
  ++side.vectors;
  side.zero += zero;
  side.non_finite += !finite;
}

void scan_side(const ActivationFile& file, const TaskHeader& task, ActivationFile::Side which,
               std::int64_t example, const std::vector<std::int64_t>& positions, VectorScan::Side& side) {
  const bool query = which == ActivationFile::Side::kQuery;
  const int heads = query ? task.query_heads : task.kv_heads;
  const std::int64_t head_bytes =
      std::ssize(positions) * task.head_dim *
      static_cast<std::int64_t>(element_size(query ? task.query_type : task.key_type));
  const int at_once = static_cast<int>(std::clamp<std::int64_t>(kBlockBytes / head_bytes, 1, heads));
  side.slots += std::count_if(positions.begin(), positions.end(), [](std::int64_t p) { return p >= 0; });
  RawBlock block;
  std::vector<double> row(static_cast<std::size_t>(task.head_dim));
  for (int layer = 0; layer < static_cast<int>(task.layers.size()); ++layer)
    for (int first = 0; first < heads; first += at_once) {
      file.read_block(task, which, example, layer, first, std::min(at_once, heads - first), block);
      for (std::int64_t h = 0; h < block.heads; ++h)
        for (std::int64_t t = 0; t < block.tokens; ++t) {
          if (positions[static_cast<std::size_t>(t)] < 0) continue;
          convert_elements(block.type, block.at(h, t), row.size(), row.data());
          scan_row(row.data(), task.head_dim, side);
        }
    }
}

ExampleSlots slots_of(const ActivationFile& file, const TaskHeader& task, std::int64_t example) {
  try {
    return file.read_slots(task, example, 0, false);
  } catch (const UserError&) {  // listed among the checks
    ExampleSlots all;
    all.query_position.assign(static_cast<std::size_t>(task.query_slots), 0);
    all.key_position.assign(static_cast<std::size_t>(task.key_slots), 0);
    return all;
  }
}

}  // namespace

VectorScan scan_vectors(const ActivationFile& file, const TaskHeader& task) {
  VectorScan scan;
  for (std::int64_t e = 0; e < task.examples; ++e) {
    const ExampleSlots slots = slots_of(file, task, e);
    scan_side(file, task, ActivationFile::Side::kQuery, e, slots.query_position, scan.query);
    scan_side(file, task, ActivationFile::Side::kKey, e, slots.key_position, scan.key);
  }
  return scan;
}

}  // namespace rope
