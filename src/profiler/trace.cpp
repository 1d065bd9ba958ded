#include "profiler/trace.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "profiler/clean_text.hpp"
#include "profiler/edit_distance.hpp"
#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr std::size_t kListed = 8;  // names in a message

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kListed) text += fmt::format(", ... ({} in all)", names.size());
  return text.empty() ? "none" : text;
}

// "3, 5-7".
std::string ranges(const std::vector<std::int64_t>& rising) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < rising.size();) {
    std::size_t end = i + 1;
    while (end < rising.size() && rising[end] == rising[end - 1] + 1) ++end;
    parts.push_back(end - i > 1 ? fmt::format("{}-{}", rising[i], rising[end - 1])
                                : std::to_string(rising[i]));
    i = end;
  }
  return listed(parts);
}

std::string closest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = 3;
  for (const std::string& name : names)
    if (const std::size_t d = edit_distance(word, name); d < least) {
      least = d;
      best = name;
    }
  return best.empty() ? "" : "did you mean " + quoted(best) + "?";
}

// The index of a name, or of the only one where none is given.
std::size_t choose(const std::string& where, const char* what, const char* option,
                   const std::optional<std::string>& wanted, const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(quoted(name));
  if (!wanted) {
    if (names.size() == 1) return 0;
    throw usage_error(fmt::format("{} is missing; {} holds the {}s {}", option, where, what, listed(shown)));
  }
  const auto found = std::find(names.begin(), names.end(), *wanted);
  if (found == names.end())
    throw UserError(fmt::format("{}: no {} {}; it holds {}", where, what, quoted(*wanted), listed(shown)),
                    closest(*wanted, names));
  return static_cast<std::size_t>(found - names.begin());
}

int choose_number(const std::string& where, const char* what, const char* option,
                  const std::optional<int>& wanted, const std::vector<std::int64_t>& numbers) {
  if (!wanted) {
    if (numbers.size() == 1) return static_cast<int>(numbers.front());
    throw usage_error(fmt::format("{} is missing; {} has the {}s {}", option, where, what, ranges(numbers)));
  }
  if (std::find(numbers.begin(), numbers.end(), *wanted) == numbers.end())
    throw UserError(fmt::format("{}: no {} {}; there are {}", where, what, *wanted, ranges(numbers)));
  return *wanted;
}

// The part of an example that holds a layer.
void find_part(const ActivationSet& set, TracePlace& place) {
  for (const ExamplePart& part : place.example->parts) {
    const ActivationFile& file = set.files()[static_cast<std::size_t>(part.file)];
    const TaskHeader& header = file.tasks()[static_cast<std::size_t>(part.task)];
    if (std::find(header.layers.begin(), header.layers.end(), place.layer) == header.layers.end()) continue;
    place.file = &file;
    place.header = &header;
    place.row = part.row;
  }
}

// The index of a slot among the used ones.
std::int64_t choose_slot(const std::string& where, const char* what, const char* option,
                         const std::optional<std::int64_t>& wanted, std::size_t slots,
                         const std::vector<std::int64_t>& used) {
  std::vector<std::int64_t> rising = used;
  std::sort(rising.begin(), rising.end());
  if (!wanted) {
    if (used.size() == 1) return 0;
    throw usage_error(
        fmt::format("{} is missing; {} uses the {} slots {}", option, where, what, ranges(rising)));
  }
  if (*wanted < 0 || *wanted >= static_cast<std::int64_t>(slots))
    throw UserError(fmt::format("{}: no {} slot {}; there are {}, used: {}", where, what, *wanted, slots,
                                ranges(rising)));
  const auto found = std::find(used.begin(), used.end(), *wanted);
  if (found == used.end())
    throw UserError(fmt::format("{}: {} slot {} is unused; used: {}", where, what, *wanted, ranges(rising)));
  return found - used.begin();
}

// Keys of triplet number `wanted`, as the cache counts them.
std::pair<std::int64_t, std::int64_t> triplet_slots(const std::string& where, const ExampleSlots& slots,
                                                    std::int64_t wanted) {
  const bool stored = !slots.triplets.empty();
  const auto count = static_cast<std::int64_t>((stored ? slots.triplets : slots.key_position).size() / 2);
  if (wanted < 0 || wanted >= count)
    throw UserError(fmt::format("{}: no triplet {}; {} {}", where, wanted,
                                stored ? "it stores" : "its keys two by two are", count));
  const auto at = static_cast<std::size_t>(2 * wanted);
  if (!stored) return {2 * wanted, 2 * wanted + 1};
  if (slots.triplets[at] < 0 || slots.triplets[at + 1] < 0)
    throw UserError(fmt::format("{}: triplet {} is unused", where, wanted));
  return {slots.triplets[at], slots.triplets[at + 1]};
}

std::string place_of(const TracePlace& place) {
  return fmt::format("{}: task {}, example {}", place.file->path(), quoted(place.task->name),
                     quoted(place.example->id));
}

}  // namespace

TracePlace find_trace_place(const ActivationSet& set, const TraceRequest& request, bool check_window) {
  const std::string where = set.files()[0].path();
  TracePlace place;
  std::vector<std::string> names;
  for (const SetTask& task : set.tasks()) names.push_back(task.name);
  place.task = &set.tasks()[choose(where, "task", "--task", request.task, names)];
  names.clear();
  for (const SetExample& example : place.task->examples) names.push_back(example.id);
  const std::string in_task = fmt::format("{}: task {}", where, quoted(place.task->name));
  place.example = &place.task->examples[choose(in_task, "example", "--example", request.example, names)];

  const std::vector<std::int64_t> layers(place.task->layers.begin(), place.task->layers.end());
  place.layer = choose_number(in_task, "layer", "--layer", request.layer, layers);
  std::vector<std::int64_t> heads;
  bool rotates = false;
  for (const SetHead& head : set.heads())
    if (head.layer == place.layer) {
      heads.push_back(head.head);
      rotates = rotates || head.rotates;
    }
  const std::string in_layer = fmt::format("{}: layer {}", where, place.layer);
  if (!rotates) throw UserError(in_layer + " does not rotate: its scores do not depend on distance");
  place.head = choose_number(in_layer, "head", "--head", request.head, heads);
  place.head_index = set.first_head(place.layer) + place.head;
  if (!set.heads()[static_cast<std::size_t>(place.head_index)].rotates)
    throw UserError(fmt::format("{}, head {} does not rotate: its scores do not depend on distance", in_layer,
                                place.head));
  find_part(set, place);
  if (place.file == nullptr)
    throw UserError(fmt::format("{}: example {} does not store layer {}", in_task, quoted(place.example->id),
                                place.layer));
  place.slots = place.file->read_slots(*place.header, place.row, place.example->window, check_window);
  return place;
}

TraceKeys find_trace_keys(const TracePlace& place, const TraceRequest& request, const PartSlots& slots) {
  const std::string where = place_of(place);
  TraceKeys keys;
  keys.query = choose_slot(where, "query", "--query", request.query, place.slots.query_position.size(),
                           slots.query_slot);
  std::optional<std::int64_t> key = request.key, key2 = request.key2;
  if (request.triplet) std::tie(key, key2) = triplet_slots(where, place.slots, *request.triplet);
  const std::size_t key_slots = place.slots.key_position.size();
  keys.key = choose_slot(where, "key", "--key", key, key_slots, slots.key_slot);
  if (key2) keys.key2 = choose_slot(where, "key", "--key2", key2, key_slots, slots.key_slot);
  if (keys.key == keys.key2)
    throw usage_error(fmt::format("--key2: a margin needs two keys, found slot {} twice", *key2));
  const auto at = [](const auto& values, std::int64_t index) {
    return values[static_cast<std::size_t>(index)];
  };
  keys.query_slot = at(slots.query_slot, keys.query);
  keys.query_position = at(slots.query_position, keys.query);
  keys.key_slot = at(slots.key_slot, keys.key);
  keys.key_position = at(slots.key_position, keys.key);
  if (keys.is_margin()) {
    keys.key2_slot = at(slots.key_slot, keys.key2);
    keys.key2_position = at(slots.key_position, keys.key2);
  }
  const std::int64_t seen = at(slots.first_pair, keys.query + 1) - at(slots.first_pair, keys.query);
  for (const std::int64_t index : {keys.key, keys.key2})
    if (index >= seen)
      throw UserError(fmt::format("{}: key slot {} stands at position {}, behind query slot {} at {}", where,
                                  at(slots.key_slot, index), at(slots.key_position, index), keys.query_slot,
                                  keys.query_position));
  return keys;
}

std::vector<TraceKeys> all_trace_keys(const PartSlots& slots) {
  std::vector<TraceKeys> all;
  for (std::size_t q = 0; q < slots.query_slot.size(); ++q)
    for (std::int64_t k = 0; k < slots.first_pair[q + 1] - slots.first_pair[q]; ++k) {
      const auto at = static_cast<std::size_t>(k);
      TraceKeys keys;
      keys.query = static_cast<std::int64_t>(q);
      keys.key = k;
      keys.query_slot = slots.query_slot[q];
      keys.key_slot = slots.key_slot[at];
      keys.query_position = slots.query_position[q];
      keys.key_position = slots.key_position[at];
      all.push_back(keys);
    }
  return all;
}

TracedHead::TracedHead(const HeadJob& job) : job_(&job), n_freq_(job.setting.lanes->omega.size()) {
  vectors_.assign(job.setting, *job.slots, job.phases.get());
}

// One content vector in the rows of VectorColumns; queries hold the logit scale.
std::vector<double> TracedHead::column(bool query, std::int64_t index) {
  const HeadVectors::PairColumns columns =
      query ? vectors_.pairs(index, 0, 1, false) : vectors_.pairs(0, index, 1, false);
  const spectral::VectorColumns& side = query ? *columns.run.query : *columns.run.key;
  const std::size_t token = query ? columns.run.q : columns.run.first_key;
  std::vector<double> rows(side.rows());
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = side.row(r)[token];
  return rows;
}

TracedVector TracedHead::vector(const TraceKeys& keys) {
  const std::vector<double> query = column(true, keys.query);
  std::vector<double> key = column(false, keys.key);
  const auto is_zero = [](const std::vector<double>& rows) {
    return std::all_of(rows.begin(), rows.end(), [](double x) { return x == 0; });
  };
  const auto constant = [&](const std::vector<double>& rows) {
    double sum = 0;
    for (std::size_t r = 2 * n_freq_; r < rows.size(); ++r) sum += query[r] * rows[r];
    return sum;
  };
  TracedVector traced;
  traced.zero_vector = is_zero(query) || is_zero(key);
  traced.tails = std::abs(constant(key));
  spectral::TraceVector& v = traced.vector;
  v.constant = constant(key);
  if (keys.is_margin()) {
    const std::vector<double> other = column(false, keys.key2);
    traced.zero_vector = traced.zero_vector || is_zero(other);
    traced.tails += std::abs(constant(other));
    v.constant -= constant(other);
    // Differences of stored types narrower than float64 are exact.
    for (std::size_t r = 0; r < key.size(); ++r) key[r] -= other[r];
  }
  v.omega = job_->setting.lanes->omega;
  v.high = job_->grid->high();
  double norm = 0;
  for (std::size_t n = 0; n < n_freq_; ++n) {
    const double qa = query[n], qb = query[n_freq_ + n], ka = key[n], kb = key[n_freq_ + n];
    v.re.push_back(qa * ka + qb * kb);
    v.im.push_back(qb * ka - qa * kb);
    norm = std::hypot(norm, std::hypot(v.re[n], v.im[n]));
  }
  traced.finite = norm <= kLargestNorm && traced.tails <= kLargestNorm;
  return traced;
}

spectral::TraceVector change_vector(const spectral::TraceVector& vector, const spectral::LaneMap& lanes,
                                    const HeadChange& change) {
  spectral::TraceVector changed;
  changed.constant = vector.constant;
  for (std::size_t n = 0; n < vector.omega.size(); ++n) {
    const auto pair = static_cast<std::size_t>(lanes.pair[n]);
    const double factor = change.scale.empty() ? 1.0 : change.scale[pair];
    if (!change.frozen.empty() && change.frozen[pair]) {
      changed.constant += factor * vector.re[n];
      continue;
    }
    changed.omega.push_back(vector.omega[n]);
    changed.high.push_back(vector.high[n]);
    changed.re.push_back(factor * vector.re[n]);
    changed.im.push_back(factor * vector.im[n]);
  }
  return changed;
}

void trace_range(const spectral::ScoreTrace& original, const spectral::ScoreTrace* changed,
                 const TraceRange& range, int threads, const TraceSink& sink) {
  constexpr std::int64_t kChunk = 2048;
  std::vector<spectral::TracePoint> points(2 * kChunk);
  const int team = threads > 0 ? threads : omp_get_max_threads();
  for (std::int64_t first = 0; first < range.rows(); first += kChunk) {
    const std::int64_t count = std::min(kChunk, range.rows() - first);
#pragma omp parallel for num_threads(team) if (count > 64)
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t m = range.first + (first + i) * range.stride;
      points[static_cast<std::size_t>(2 * i)] = original.at(m);
      if (changed != nullptr) points[static_cast<std::size_t>(2 * i + 1)] = changed->at(m);
    }
    for (std::int64_t i = 0; i < count; ++i)
      sink(range.first + (first + i) * range.stride, points[static_cast<std::size_t>(2 * i)],
           points[static_cast<std::size_t>(2 * i + 1)]);
  }
}

}  // namespace rope
