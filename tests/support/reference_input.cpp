#include "support/reference_input.hpp"

#include <algorithm>

#include "profiler/example_reader.hpp"
#include "spectral/band_split.hpp"

namespace rope::test {
namespace {

reference::StoredSide stored_side(const ActivationFile& file, const TaskHeader& task,
                                  ActivationFile::Side side, std::int64_t example, int slot, int head,
                                  const ExampleSlots& slots) {
  const bool query = side == ActivationFile::Side::kQuery;
  RawBlock block;
  file.read_block(task, side, example, slot, head, 1, block);
  reference::StoredSide stored;
  for (std::int64_t token = 0; token < block.tokens; ++token) {
    std::vector<double> row(static_cast<std::size_t>(block.head_dim));
    convert_elements(block.type, block.at(0, token), row.size(), row.data());
    stored.rows.push_back(row);
  }
  stored.position = query ? slots.query_position : slots.key_position;
  stored.post = (query ? file.model().query_rotation : file.model().key_rotation) == Rotation::kPost;
  stored.rounding_unit = rounding_unit(block.type);
  return stored;
}

}  // namespace

reference::HeadInput reference_input(const ActivationSet& set, const SetExample& example, int layer, int head,
                                     const ScoringOptions& options) {
  const ExamplePart& part = example.parts[0];
  const ActivationFile& file = set.files()[part.file];
  const TaskHeader& task = file.tasks()[part.task];
  const LayerModel& facts = set.layer(layer);
  const int slot =
      static_cast<int>(std::find(task.layers.begin(), task.layers.end(), layer) - task.layers.begin());
  const ExampleSlots slots = file.read_slots(task, part.row, example.window, options.window == 0);
  const spectral::FrequencyGrid grid = set.model(part.file).grid(layer, head, example.window);

  reference::HeadInput input;
  input.query = stored_side(file, task, ActivationFile::Side::kQuery, part.row, slot, head, slots);
  input.key = stored_side(file, task, ActivationFile::Side::kKey, part.row, slot,
                          head / (task.query_heads / task.kv_heads), slots);
  input.interleaved = file.model().layout == spectral::PairLayout::kInterleaved;
  input.omega = grid.omega;
  input.reversed = facts.reversed;
  input.attention_factor = grid.attention_factor;
  input.softmax_scale = facts.logit_scale;
  if (facts.query_temperature)
    for (std::int64_t position : slots.query_position)
      input.query_factor.push_back(position < 0 ? 1.0 : facts.query_temperature->at(position));
  input.softcap = facts.softcap;
  input.window = layer_window(options, facts, example);
  input.high = spectral::high_frequency_mask(options.split, grid.omega, grid.rho, input.window);
  if (options.near_far)
    input.near_far_m = options.near_far_window > 0 ? options.near_far_window : input.window;
  if (options.barrier) input.barrier = *options.barrier;
  input.causal = task.full_coverage;
  input.default_triplets = slots.triplets.empty();
  for (std::size_t t = 0; t + 1 < slots.triplets.size(); t += 2)
    input.key_pairs.emplace_back(static_cast<int>(slots.triplets[t]),
                                 static_cast<int>(slots.triplets[t + 1]));
  return input;
}

}  // namespace rope::test
