#include "profiler/head_vectors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/element_convert.hpp"
#include "spectral/sweep_cases.hpp"

namespace rope::test {
namespace {

// A head with keys that are not in order, so that token lists have gaps.
struct SmallHead {
  LayerModel layer;
  spectral::LaneMap lanes;
  RawBlock query, key;
  PartSlots slots;
  HeadSetting setting;
};

RawBlock random_block(std::int64_t tokens, int dim, std::mt19937_64& random,
                      ElementType type = ElementType::kFloat32) {
  RawBlock block;
  block.type = type;
  block.heads = 1;
  block.tokens = tokens;
  block.head_dim = dim;
  std::vector<double> values(static_cast<std::size_t>(tokens * dim));
  for (double& x : values) x = uniform(random);
  block.bytes.resize(values.size() * element_size(type));
  store_elements(block.type, values.data(), values.size(), block.bytes.data());
  return block;
}

void make_head(SmallHead& head, Rotation rotation, bool reversed, bool norm) {
  std::mt19937_64 random(7);
  auto omega = geometric_grid(1e4, 6);
  omega[2] = 0.0;
  head.lanes = spectral::make_lane_map(omega, spectral::PairLayout::kHalf, 15);
  head.layer.logit_scale = 0.3;
  head.layer.reversed = reversed;
  if (norm) head.layer.norm_after_epsilon = 1e-3;
  head.query = random_block(4, 15, random);
  head.key = random_block(21, 15, random);
  std::fill_n(head.key.bytes.begin() + 300, 60, std::byte{0});  // key slot 5 is zero
  ExampleSlots slots;
  slots.query_position = {900, 901, -1, 950};
  for (std::int64_t slot = 0; slot < 21; ++slot) slots.key_position.push_back(slot == 3 ? -1 : 11 * slot);
  for (std::int64_t t = 0; t < 30; ++t)
    for (const std::int64_t slot : {(7 * t + 1) % 21, (5 * t + 2) % 21}) slots.triplets.push_back(slot);
  head.slots = make_part_slots(slots, false);
  head.setting = {&head.layer, &head.lanes, {&head.query, 0, rotation, 0.8}, {&head.key, 0, rotation, 0.8}};
}

// Values of a run's rows, in order.
std::vector<double> values(const spectral::VectorColumns& columns, std::size_t first, std::size_t count) {
  std::vector<double> result;
  for (std::size_t r = 0; r < columns.rows(); ++r)
    result.insert(result.end(), columns.row(r) + first, columns.row(r) + first + count);
  return result;
}

TEST_SUITE_BEGIN("profiler");

TEST_CASE("head vectors: a head held by runs has the values of a head held at once, to the bit") {
  for (const Rotation rotation : {Rotation::kPre, Rotation::kPost})
    for (const bool reversed : {false, true})
      for (const bool norm : {false, true}) {
        SmallHead head;
        make_head(head, rotation, reversed, norm);
        const SlotPhases phases(head.slots, head.lanes);
        HeadVectors whole, by_runs(0);
        whole.assign(head.setting, head.slots, norm ? nullptr : &phases);
        by_runs.assign(head.setting, head.slots, norm ? &phases : nullptr);
        const auto keys = static_cast<std::int64_t>(head.slots.key_slot.size());
        const auto key_pairs = static_cast<std::int64_t>(head.slots.key_pairs.size());
        REQUIRE(key_pairs > 20);
        for (std::int64_t q = 0; q < 3; ++q) {
          for (const auto& [first, count] :
               {std::pair<std::int64_t, std::int64_t>{0, keys}, {3, 9}, {12, 1}}) {
            const auto a = whole.pairs(q, first, count, true), b = by_runs.pairs(q, first, count, true);
            CHECK(values(*a.run.query, a.run.q, 1) == values(*b.run.query, b.run.q, 1));
            CHECK(values(*a.turned_query, a.run.q, 1) == values(*b.turned_query, b.run.q, 1));
            CHECK(values(*a.run.key, a.run.first_key, a.run.count) ==
                  values(*b.run.key, b.run.first_key, b.run.count));
            CHECK(values(*a.turned_key, a.run.first_key, a.run.count) ==
                  values(*b.turned_key, b.run.first_key, b.run.count));
          }
          for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, key_pairs}, {4, 13}}) {
            const auto a = whole.triplets({q, first, count}), b = by_runs.triplets({q, first, count});
            CHECK(values(*a.run.query, a.run.q, 1) == values(*b.run.query, b.run.q, 1));
            CHECK(values(*a.run.key, a.run.first_key, a.run.count) ==
                  values(*b.run.key, b.run.first_key, b.run.count));
            CHECK(a.query_is_zero[0] == b.query_is_zero[0]);
            CHECK(a.query_bounds->size[a.run.q] == b.query_bounds->size[b.run.q]);
            CHECK(a.query_bounds->largest[a.run.q] == b.query_bounds->largest[b.run.q]);
            for (std::int64_t t = 0; t < count; ++t) {
              const auto [one, other] = head.slots.key_pairs[static_cast<std::size_t>(first + t)];
              const bool zero = head.slots.key_slot[static_cast<std::size_t>(one)] == 5 ||
                                head.slots.key_slot[static_cast<std::size_t>(other)] == 5;
              CHECK((a.key_is_zero[t] != 0) == zero);
              CHECK((b.key_is_zero[t] != 0) == zero);
              const auto k = static_cast<std::size_t>(t);
              CHECK(a.pair_bounds->size[a.run.first_key + k] == b.pair_bounds->size[b.run.first_key + k]);
              CHECK(a.pair_bounds->rounding[a.run.first_key + k] ==
                    b.pair_bounds->rounding[b.run.first_key + k]);
              CHECK(a.first_constant[t] == b.first_constant[t]);
              CHECK(a.second_constant[t] == b.second_constant[t]);
              CHECK(a.first_constant[t] != 0);
            }
          }
        }
      }
}

TEST_CASE("head vectors: taking up another head keeps nothing but equal keys") {
  SmallHead one, other;
  make_head(one, Rotation::kPre, false, false);
  make_head(other, Rotation::kPre, false, false);
  for (std::size_t i = 0; i < 15; ++i) std::swap(other.key.bytes[4 * i + 3], other.key.bytes[4 * i + 63]);
  other.query = one.key;
  std::vector<HeadSetting> settings(8, one.setting);  // each differs from the first in one thing
  settings[1].key = other.setting.key;
  settings[2].query = other.setting.query;
  settings[3].key.rotation = Rotation::kPost;
  settings[4].lanes = &other.lanes;
  other.layer.reversed = true;
  settings[5].layer = &other.layer;
  std::mt19937_64 random(8);
  const RawBlock halves = random_block(4, 15, random, ElementType::kFloat16);
  settings[6].query.block = &halves;
  for (const HeadSetting& before : settings)
    for (const HeadSetting& setting : settings) {
      HeadVectors vectors, fresh;
      vectors.assign(before, one.slots, nullptr);
      vectors.pairs(0, 0, 5, true);
      vectors.triplets({0, 0, 5});
      vectors.assign(setting, one.slots, nullptr);
      fresh.assign(setting, one.slots, nullptr);
      const auto a = vectors.pairs(0, 0, 5, true), b = fresh.pairs(0, 0, 5, true);
      CHECK(values(*a.turned_key, 0, 5) == values(*b.turned_key, 0, 5));
      CHECK(values(*a.turned_query, 0, 3) == values(*b.turned_query, 0, 3));
      const auto c = vectors.triplets({1, 0, 5}), d = fresh.triplets({1, 0, 5});
      CHECK(values(*c.run.key, 0, 5) == values(*d.run.key, 0, 5));
      CHECK(values(*c.run.query, 0, 3) == values(*d.run.query, 0, 3));
      CHECK(std::equal(c.pair_bounds->rounding.begin(), c.pair_bounds->rounding.begin() + 5,
                       d.pair_bounds->rounding.begin()));
    }
}

TEST_CASE("query runs: blocks cut between and within queries, queries without pairs") {
  const std::vector<std::int64_t> first{0, 3, 3, 10};
  const auto check = [&](std::int64_t from, std::int64_t count,
                         const std::vector<std::array<std::int64_t, 4>>& expected) {
    const auto runs = query_runs(first, from, count);
    REQUIRE(runs.size() == expected.size());
    for (std::size_t i = 0; i < runs.size(); ++i)
      CHECK(std::array<std::int64_t, 4>{runs[i].query, runs[i].first, runs[i].count,
                                        static_cast<std::int64_t>(runs[i].place)} == expected[i]);
  };
  check(0, 10, {{0, 0, 3, 0}, {2, 0, 7, 3}});
  check(1, 4, {{0, 1, 2, 0}, {2, 0, 2, 2}});
  check(3, 2, {{2, 0, 2, 0}});
  check(5, 5, {{2, 2, 5, 0}});
}

TEST_CASE("query runs: neighbours with the same keys are one run, up to the most asked for") {
  const std::vector<std::int64_t> first{0, 4, 8, 12, 16, 20, 22, 24};
  const auto check = [&](std::int64_t from, std::int64_t count, std::int64_t most,
                         const std::vector<std::array<std::int64_t, 5>>& expected) {
    const auto runs = query_runs(first, from, count, most);
    REQUIRE(runs.size() == expected.size());
    for (std::size_t i = 0; i < runs.size(); ++i)
      CHECK(std::array<std::int64_t, 5>{runs[i].query, runs[i].first, runs[i].count,
                                        static_cast<std::int64_t>(runs[i].place),
                                        runs[i].queries} == expected[i]);
  };
  check(0, 24, 4, {{0, 0, 4, 0, 4}, {4, 0, 4, 16, 1}, {5, 0, 2, 20, 2}});
  check(0, 24, 2, {{0, 0, 4, 0, 2}, {2, 0, 4, 8, 2}, {4, 0, 4, 16, 1}, {5, 0, 2, 20, 2}});
  check(1, 8, 4, {{0, 1, 3, 0, 1}, {1, 0, 4, 3, 1}, {2, 0, 1, 7, 1}});
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
