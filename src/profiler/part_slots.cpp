#include "profiler/part_slots.hpp"

#include <algorithm>
#include <numeric>

namespace rope {
namespace {

std::vector<std::int64_t> used_slots(const std::vector<std::int64_t>& positions) {
  std::vector<std::int64_t> used;
  for (std::size_t slot = 0; slot < positions.size(); ++slot)
    if (positions[slot] >= 0) used.push_back(static_cast<std::int64_t>(slot));
  return used;
}

std::vector<long long> positions_of(const std::vector<std::int64_t>& slots,
                                    const std::vector<std::int64_t>& positions) {
  std::vector<long long> result;
  result.reserve(slots.size());
  for (std::int64_t slot : slots) result.push_back(positions[slot]);
  return result;
}

}  // namespace

PartSlots make_part_slots(const ExampleSlots& slots, bool full_coverage) {
  PartSlots part;
  part.query_slot = used_slots(slots.query_position);
  part.key_slot = used_slots(slots.key_position);
  if (full_coverage)  // the keys that a query sees are then a prefix
    std::stable_sort(part.key_slot.begin(), part.key_slot.end(), [&](std::int64_t a, std::int64_t b) {
      return slots.key_position[a] < slots.key_position[b];
    });
  part.query_position = positions_of(part.query_slot, slots.query_position);
  part.key_position = positions_of(part.key_slot, slots.key_position);

  std::vector<std::int32_t> index_of_slot(slots.key_position.size(), -1);
  for (std::size_t k = 0; k < part.key_slot.size(); ++k)
    index_of_slot[part.key_slot[k]] = static_cast<std::int32_t>(k);
  auto add_pair = [&](std::int64_t first, std::int64_t second) {
    if (first < 0 || second < 0 || index_of_slot[first] < 0 || index_of_slot[second] < 0) return;
    part.key_pairs.emplace_back(index_of_slot[first], index_of_slot[second]);
  };
  if (slots.triplets.empty())
    for (std::size_t slot = 0; slot + 1 < slots.key_position.size(); slot += 2)
      add_pair(static_cast<std::int64_t>(slot), static_cast<std::int64_t>(slot + 1));
  else
    for (std::size_t t = 0; t + 1 < slots.triplets.size(); t += 2)
      add_pair(slots.triplets[t], slots.triplets[t + 1]);
  auto last_key = [](const std::pair<std::int32_t, std::int32_t>& keys) {
    return std::max(keys.first, keys.second);
  };
  if (full_coverage)  // likewise the key pairs
    std::stable_sort(part.key_pairs.begin(), part.key_pairs.end(),
                     [&](const auto& a, const auto& b) { return last_key(a) < last_key(b); });

  part.first_pair.assign(1, 0);
  part.first_triplet.assign(1, 0);
  for (long long position : part.query_position) {
    std::int64_t keys = static_cast<std::int64_t>(part.key_slot.size());
    std::int64_t key_pairs = static_cast<std::int64_t>(part.key_pairs.size());
    if (full_coverage) {
      keys = std::upper_bound(part.key_position.begin(), part.key_position.end(), position) -
             part.key_position.begin();
      key_pairs = std::partition_point(part.key_pairs.begin(), part.key_pairs.end(),
                                       [&](const auto& pair) { return last_key(pair) < keys; }) -
                  part.key_pairs.begin();
    }
    part.first_pair.push_back(part.first_pair.back() + keys);
    part.first_triplet.push_back(part.first_triplet.back() + key_pairs);
  }
  return part;
}

std::vector<QueryRun> query_runs(const std::vector<std::int64_t>& first_of_query, std::int64_t first,
                                 std::int64_t count, std::int64_t most) {
  std::vector<QueryRun> runs;
  runs.reserve(std::min(first_of_query.size(), static_cast<std::size_t>(count)));
  const auto add = [&](const QueryRun& run) {
    if (!runs.empty() && runs.back().queries < most) {
      QueryRun& last = runs.back();
      if (last.query + last.queries == run.query && last.first == run.first && last.count == run.count) {
        ++last.queries;
        return;
      }
    }
    runs.push_back(run);
  };
  std::int64_t query =
      std::upper_bound(first_of_query.begin(), first_of_query.end(), first) - first_of_query.begin() - 1;
  for (std::int64_t at = first; at < first + count; ++query) {
    const std::int64_t end = std::min(first_of_query[query + 1], first + count);
    if (end > at) add({query, at - first_of_query[query], end - at, static_cast<std::size_t>(at - first)});
    at = std::max(at, end);
  }
  return runs;
}

}  // namespace rope
