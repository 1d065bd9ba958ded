// Values that belong to single examples: windows, ids, positions, triplets, and what must hold among them.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "profiler/activation_header.hpp"
#include "profiler/clean_text.hpp"

namespace rope {
namespace {

constexpr std::int64_t kLargestWindow = std::int64_t{1} << 24;
constexpr std::int64_t kLargestPosition = (std::int64_t{1} << 31) - 1;
constexpr std::size_t kLongestId = 1024;

/// "/tasks/t/key_position[3, 5]"
std::string element(const Hdf5Dataset& set, std::int64_t example, std::int64_t slot) {
  return fmt::format("{}[{}, {}]", set.path, example, slot);
}

void check_positions(const Hdf5Source& source, const Hdf5Dataset& set, std::int64_t example,
                     const std::vector<std::int64_t>& positions, std::int64_t window, bool check_window) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::int64_t p = positions[i];
    if (p < -1 || p > kLargestPosition)
      throw source.error(element(set, example, static_cast<std::int64_t>(i)),
                         fmt::format("a token position from 0 to {}, or -1", kLargestPosition),
                         fmt::format("{}", p));
    if (check_window && p >= window)
      throw source.error(element(set, example, static_cast<std::int64_t>(i)),
                         fmt::format("a position below the example's window of {} tokens", window),
                         fmt::format("{}", p), "window is the full input length of the example, in tokens");
  }
}

/// Sampled keys: none after any query.
void check_sampled(const Hdf5Source& source, const TaskData& data, std::int64_t example,
                   const ExampleSlots& slots) {
  std::int64_t first_query = -1;
  for (const std::int64_t p : slots.query_position)
    if (p >= 0 && (first_query < 0 || p < first_query)) first_query = p;
  if (first_query < 0) return;
  for (std::size_t i = 0; i < slots.key_position.size(); ++i)
    if (slots.key_position[i] > first_query)
      throw source.error(element(data.key_position, example, static_cast<std::int64_t>(i)),
                         fmt::format("a key at or before every query (the first is at {})", first_query),
                         fmt::format("{}", slots.key_position[i]),
                         "caches that store every key set key_coverage = \"full\"");
}

/// Full coverage: the keys are tokens 0, 1, 2, ... up to the last query at least.
void check_full(const Hdf5Source& source, const TaskData& data, std::int64_t example,
                const ExampleSlots& slots) {
  std::int64_t next = 0;
  for (std::size_t i = 0; i < slots.key_position.size(); ++i) {
    const std::int64_t p = slots.key_position[i];
    if (p < 0) continue;
    if (p != next)
      throw source.error(element(data.key_position, example, static_cast<std::int64_t>(i)),
                         fmt::format("token {} (key_coverage is \"full\": every token in order)", next),
                         fmt::format("{}", p));
    ++next;
  }
  const std::int64_t last = slots.query_position.empty()
                                ? -1
                                : *std::max_element(slots.query_position.begin(), slots.query_position.end());
  if (last >= next)
    throw source.error(fmt::format("{}[{}]", data.key_position.path, example),
                       fmt::format("every token up to the last query at {} (key_coverage is \"full\")", last),
                       fmt::format("{} keys", next));
}

void check_triplets(const Hdf5Source& source, const TaskData& data, std::int64_t example,
                    const ExampleSlots& slots) {
  const std::int64_t keys = std::ssize(slots.key_position);
  for (std::size_t i = 0; i < slots.triplets.size(); ++i) {
    const auto where = [&] { return element(*data.triplets, example, static_cast<std::int64_t>(i / 2)); };
    const std::int64_t slot = slots.triplets[i];
    if (slot < -1 || slot >= keys)
      throw source.error(where(), fmt::format("key slots from 0 to {}, or -1", keys - 1),
                         fmt::format("{}", slot));
    if (i % 2 == 1 && slot >= 0 && slot == slots.triplets[i - 1])
      throw source.error(where(), "two different key slots", fmt::format("{} twice", slot));
  }
}

/// 64-bit FNV-1a.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

std::vector<std::int64_t> read_task_windows(const Hdf5Source& source, const TaskData& data,
                                            std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> windows = source.read_integers(data.window, {first}, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t window = windows[static_cast<std::size_t>(i)];
    if (window < 2 || window > kLargestWindow)
      throw source.error(fmt::format("{}[{}]", data.window.path, first + i),
                         fmt::format("a window from 2 to {} tokens", kLargestWindow),
                         fmt::format("{}", window));
  }
  return windows;
}

std::vector<std::string> read_task_ids(const Hdf5Source& source, const TaskData& data, std::int64_t first,
                                       std::int64_t count) {
  std::vector<std::string> ids;
  if (!data.example_id) {
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(std::to_string(first + i));
    return ids;
  }
  ids = source.read_texts(*data.example_id, first, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string& id = ids[static_cast<std::size_t>(i)];
    if (id.empty() || id.size() > kLongestId || !is_clean_text(id))
      throw source.error(fmt::format("{}[{}]", data.example_id->path, first + i),
                         fmt::format("UTF-8 text of 1 to {} bytes without control characters", kLongestId),
                         quoted(id));
  }
  return ids;
}

ExampleSlots read_task_slots(const Hdf5Source& source, const TaskHeader& task, const TaskData& data,
                             std::int64_t example, std::int64_t window, bool check_window) {
  ExampleSlots slots;
  slots.query_position = source.read_integers(data.query_position, {example, 0}, {1, task.query_slots});
  slots.key_position = source.read_integers(data.key_position, {example, 0}, {1, task.key_slots});
  if (data.triplets)
    slots.triplets = source.read_integers(*data.triplets, {example, 0, 0}, {1, task.triplet_slots, 2});
  check_positions(source, data.query_position, example, slots.query_position, window, check_window);
  check_positions(source, data.key_position, example, slots.key_position, window, check_window);
  if (task.full_coverage)
    check_full(source, data, example, slots);
  else
    check_sampled(source, data, example, slots);
  check_triplets(source, data, example, slots);
  return slots;
}

void check_unique_ids(const Hdf5Source& source, const TaskHeader& task, const TaskData& data) {
  if (!data.example_id) return;
  // Sixteen bytes per example, not the texts; equal hashes are settled by reading both texts again.
  std::unordered_map<std::uint64_t, std::int64_t> seen;
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t first = 0; first < task.examples; first += kBlock) {
    const std::int64_t count = std::min(kBlock, task.examples - first);
    const std::vector<std::string> ids = read_task_ids(source, data, first, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string& id = ids[static_cast<std::size_t>(i)];
      const auto [other, added] = seen.emplace(hash_of(id), first + i);
      if (added || read_task_ids(source, data, other->second, 1)[0] != id) continue;
      throw source.error(fmt::format("{}[{}]", data.example_id->path, first + i),
                         "ids that occur once in the task",
                         fmt::format("{} again, as in row {}", quoted(id), other->second));
    }
  }
}

}  // namespace rope
