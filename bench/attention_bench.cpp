// rope_attention_bench: attention rows of a layer's worth of heads, against NumPy. See README.md in this
// folder.
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "coprocess.hpp"
#include "profiler/attention_rows.hpp"
#include "profiler/element_convert.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "timing.hpp"

namespace {

using namespace rope;
using bench::Clock;

struct Sizes {
  std::int64_t keys = 8192, queries = 512;
  int dim = 64, heads = 32, group = 4;
};

/// Heads of one layer as a cache stores them: float16, before the rotation, queries spread over the example.
struct Layer {
  LayerModel model;
  spectral::LaneMap lanes;
  RawBlock query, key;
  PartSlots slots;
  std::unique_ptr<SlotPhases> phases;

  explicit Layer(const Sizes& sizes) {
    std::vector<double> omega;
    for (int n = 0; n < sizes.dim / 2; ++n) omega.push_back(std::pow(5e5, -2.0 * n / sizes.dim));
    lanes = spectral::make_lane_map(omega, spectral::PairLayout::kHalf, sizes.dim);
    model.logit_scale = 1 / std::sqrt(static_cast<double>(sizes.dim));
    std::mt19937_64 random(1);
    query = block(sizes.heads, sizes.queries, sizes.dim, random);
    key = block(sizes.heads / sizes.group, sizes.keys, sizes.dim, random);
    ExampleSlots all;
    for (std::int64_t q = 1; q <= sizes.queries; ++q)
      all.query_position.push_back(q * sizes.keys / sizes.queries - 1);
    for (std::int64_t k = 0; k < sizes.keys; ++k) all.key_position.push_back(k);
    slots = make_part_slots(all, true);
    phases = std::make_unique<SlotPhases>(slots, lanes);
  }

  static RawBlock block(std::int64_t heads, std::int64_t tokens, int dim, std::mt19937_64& random) {
    RawBlock block;
    block.type = ElementType::kFloat16;
    block.heads = heads;
    block.tokens = tokens;
    block.head_dim = dim;
    std::vector<double> values(static_cast<std::size_t>(heads * tokens * dim));
    for (double& x : values)
      x = 3.0 * static_cast<double>(static_cast<std::int64_t>(random()) >> 11) * 0x1p-52;
    block.bytes.resize(values.size() * element_size(block.type));
    store_elements(block.type, values.data(), values.size(), block.bytes.data());
    return block;
  }

  /// Mean of ln E_2 over the rows of a head.
  double head(int head, int group) const {
    HeadSetting setting;
    setting.layer = &model;
    setting.lanes = &lanes;
    setting.query = {&query, head, Rotation::kPre, 1.0};
    setting.key = {&key, head / group, Rotation::kPre, 1.0};
    HeadVectors vectors;
    vectors.assign(setting, slots, phases.get());
    AttentionRequest request;
    request.local = 64;
    request.offsets = 256;
    const auto queries = static_cast<std::int64_t>(slots.query_slot.size());
    double sum = 0;
    for (std::int64_t first = 0; first < queries; first += 512)
      for (const AttentionRow& row :
           attention_rows(vectors, first, std::min<std::int64_t>(512, queries - first), request))
        sum += log_effective_length_2(row.at_scale[0].all);
    return sum / static_cast<double>(queries);
  }
};

int run(int argc, char** argv) {
  Sizes sizes;
  int rounds = 3, layers = 16;
  std::string numpy;
  CLI::App app(
      "Times attention rows (effective lengths of order 1, 2 and inf, first token, local and offsets).");
  app.add_option("--keys", sizes.keys, "per head");
  app.add_option("--queries", sizes.queries, "per head");
  app.add_option("--layers", layers, "of 32 heads, for the time of a whole model");
  app.add_option("--rounds", rounds, "alternations with NumPy; the best of each counts");
  app.add_option("--numpy", numpy, "command of numpy_attention.py")->type_name("COMMAND");
  CLI11_PARSE(app, argc, argv);
  const Layer layer(sizes);
  double logits = 0;
  for (const long long position : layer.slots.query_position) logits += static_cast<double>(position + 1);

  std::unique_ptr<bench::Coprocess> other;
  if (!numpy.empty()) other = std::make_unique<bench::Coprocess>(numpy);
  const nlohmann::json question = {{"keys", sizes.keys}, {"queries", sizes.queries}, {"dim", sizes.dim}};
  double own = HUGE_VAL, theirs = HUGE_VAL, value = 0;
  for (int round = 0; round < rounds; ++round) {
    own = std::min(own, bench::elapsed_ns(Clock::kProcessor,
                                          [&] { value = layer.head(round % sizes.heads, sizes.group); }));
    if (other)
      theirs = std::min(theirs, nlohmann::json::parse(other->ask(question.dump())).at("ns").get<double>());
  }
  std::printf(
      "%s, %lld queries x %lld keys, d = %d: one thread %.1f ms a head, %.3f ns a logit (mean ln E_2 %.3f)\n",
      spectral::simd_in_use().c_str(), static_cast<long long>(sizes.queries),
      static_cast<long long>(sizes.keys), sizes.dim, own * 1e-6, own / logits, value);
  if (other)
    std::printf("NumPy, float64, blocked: %.1f ms a head, %.2f times as long\n", theirs * 1e-6, theirs / own);

  const int heads = 32 * layers;
  double check = 0;
  const double wall = bench::elapsed_ns(Clock::kWall, [&] {
#pragma omp parallel for schedule(dynamic) reduction(+ : check)
    for (int h = 0; h < heads; ++h) check += layer.head(h % sizes.heads, sizes.group);
  });
  std::printf("%d layers of 32 heads on %d threads: %.2f s (vectors in memory; mean ln E_2 %.3f)\n", layers,
              omp_get_max_threads(), wall * 1e-9, check / heads);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rope_attention_bench: %s\n", error.what());
    return 1;
  }
}
