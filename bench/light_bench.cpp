// Times everything per pair and per triplet that is not the distance sweep, on one thread: processor time,
// best of several rounds. Usage: rope_light_bench [--quick] [--json OUT]

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "profiler/element_convert.hpp"
#include "profiler/pair_scores.hpp"
#include "profiler/semantic_score.hpp"
#include "spectral/adjacent_sweep.hpp"

namespace {

using namespace rope;

// A batch of 960 pairs and 480 triplets: 5 groups of 3 query heads that share their keys.
constexpr std::int64_t kQueries = 4, kKeys = 16, kHeads = 15, kGroup = 3;
constexpr std::int64_t kWindow = 8192;

std::ofstream json;
int rounds = 40;

double processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

template <class Run>
double best_ns(Run run) {
  run();
  double best = 1e300;
  for (int round = 0; round < rounds; ++round) {
    const double start = processor_ns();
    run();
    best = std::min(best, processor_ns() - start);
  }
  return best;
}

void print(const char* what, std::size_t h, double value, const char* unit) {
  std::printf("%-50s %4zu %10.1f %s\n", what, h, value, unit);
  if (json.is_open())
    json << nlohmann::ordered_json{{"kind", "light"},
                                   {"what", what},
                                   {"h", h},
                                   {"value", value},
                                   {"unit", unit}}
                .dump()
         << std::endl;
}

/// Stored vectors of kHeads heads, normal-looking float16.
RawBlock random_block(std::int64_t heads, std::int64_t tokens, int dim, std::mt19937_64& random) {
  RawBlock block;
  block.heads = heads;
  block.tokens = tokens;
  block.head_dim = dim;
  std::vector<double> values(static_cast<std::size_t>(heads * tokens * dim));
  for (double& x : values) x = static_cast<double>(static_cast<std::int64_t>(random()) >> 11) * 0x1p-51;
  block.bytes.resize(values.size() * 2);
  store_elements(block.type, values.data(), values.size(), block.bytes.data());
  return block;
}

/// The heads of one layer of one example.
struct Layer {
  LayerModel facts;
  spectral::LaneMap lanes;
  RawBlock query, key;
  PartSlots slots;
  std::vector<HeadSetting> heads;
  std::vector<char> high;
};

void make_layer(std::size_t h, Rotation rotation, Layer& layer) {
  std::mt19937_64 random(h);
  std::vector<double> omega(h);
  for (std::size_t n = 0; n < h; ++n)
    omega[n] = std::pow(1e6, -static_cast<double>(n) / static_cast<double>(h));
  const int dim = static_cast<int>(2 * h);
  layer.lanes = spectral::make_lane_map(omega, spectral::PairLayout::kHalf, dim);
  layer.facts.logit_scale = 1.0 / std::sqrt(static_cast<double>(dim));
  layer.query = random_block(kHeads, kQueries, dim, random);
  layer.key = random_block(kHeads / kGroup, kKeys, dim, random);
  ExampleSlots slots;
  for (std::int64_t q = 0; q < kQueries; ++q) slots.query_position.push_back(kWindow - 1 - q);
  for (std::int64_t k = 0; k < kKeys; ++k) slots.key_position.push_back(400 * k);
  layer.slots = make_part_slots(slots, false);
  for (std::int64_t head = 0; head < kHeads; ++head)
    layer.heads.push_back({&layer.facts,
                           &layer.lanes,
                           {&layer.query, head, rotation, 1.0},
                           {&layer.key, head / kGroup, rotation, 1.0}});
  layer.high.assign(h, 0);
  std::fill_n(layer.high.begin(), h / 2, char{1});
}

double pairs_ns(const Layer& layer, const SlotPhases& phases, bool usage) {
  std::vector<PairPart> parts;
  for (const HeadSetting& head : layer.heads) parts.push_back({&head, &layer.slots, 0, &phases, usage, true});
  spectral::CoefficientBatch batch;
  return best_ns([&] { score_pairs(parts, layer.high, batch); });
}

void bench_heads(std::size_t h) {
  Layer layer, post;
  make_layer(h, Rotation::kPre, layer);
  make_layer(h, Rotation::kPost, post);
  const SlotPhases phases(layer.slots, layer.lanes), post_phases(post.slots, post.lanes);
  const double pairs = kHeads * kQueries * kKeys, triplets = pairs / 2;
  const double bare = pairs_ns(layer, phases, false), used = pairs_ns(layer, phases, true);
  print("pairs: z, U, U_H", h, bare / pairs, "ns/pair");
  print("pairs: z, U, U_H, usage, frequency mass", h, used / pairs, "ns/pair");
  print("pairs: the same, post-rotation vectors", h, pairs_ns(post, post_phases, true) / pairs, "ns/pair");

  const spectral::WindowMoments moments(layer.lanes.omega, kWindow);
  std::vector<TripletPart> parts;
  for (const HeadSetting& head : layer.heads) parts.push_back({&head, &layer.slots, 0, &phases});
  spectral::CoefficientBatch margins;
  const double all = best_ns([&] { score_triplets(parts, moments, margins); });
  std::vector<double> mean(margins.n_pairs), variance(margins.n_pairs);
  const double evaluation = best_ns([&] { moments.evaluate(margins, mean, variance); });
  print("triplets: margins, D(0), ties, moments, P_rev", h, all / triplets, "ns/triplet");
  print("triplets: the moments alone", h, evaluation / triplets, "ns/triplet");
  for (const std::int64_t window : {std::int64_t{1024}, kWindow, std::int64_t{32768}}) {
    const double build = best_ns([&] { const spectral::WindowMoments made(layer.lanes.omega, window); });
    print(("moments: making them, M = " + std::to_string(window)).c_str(), h, build / 1000, "us");
  }
  print("head of 64 pairs and 32 triplets, all but sweep", h, (used + all) / kHeads / 1000, "us/head");
}

void bench_conversion() {
  constexpr std::size_t kValues = 16384;
  std::vector<std::byte> stored(2 * kValues);
  std::vector<double> values(kValues);
  std::mt19937_64 random(1);
  for (std::byte& b : stored) b = static_cast<std::byte>(random());
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBfloat16}) {
    const double ns = best_ns([&] { convert_elements(type, stored.data(), kValues, values.data()); });
    print((std::string(element_name(type)) + " to float64").c_str(), 0, 2.0 * kValues / ns, "GB/s stored");
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      rounds = 5;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json.open(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: rope_light_bench [--quick] [--json OUT]\n");
      return 2;
    }
  }
  std::printf("all but the sweep, SIMD %s, one thread, 4 queries x 16 keys per head, 3 heads share keys\n",
              spectral::simd_in_use().c_str());
  std::printf("%-50s %4s %10s\n", "what", "h", "best");
  bench_conversion();
  for (const std::size_t h : {32, 64, 128}) bench_heads(h);
  return 0;
}
