#include "interventions/outcome_join.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "interventions/record_stages.hpp"
#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"

namespace rope {

bool candidate_before(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& id) {  // kind, alpha
    double alpha = 0;
    const char* end = id.data() + id.size();
    const auto parsed = std::from_chars(id.data(), end, alpha);
    if (id == "NR") return std::pair(0, 0.0);
    if (parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(alpha)) return std::pair(1, alpha);
    return std::pair(2, 0.0);
  };
  const auto of_a = key(a), of_b = key(b);
  return of_a != of_b ? of_a < of_b : a < b;
}

}  // namespace rope

namespace rope::detail {
namespace {

constexpr std::size_t kMostCandidates = 256;
constexpr std::uint32_t kLeftOut = std::uint32_t{1} << 31;  // from here on: candidates the plan does not have

/// A record in its group.
struct Entry {
  std::uint32_t stage, task;  // task: rank of its name
  std::uint32_t example;      // rank of its id
  std::uint32_t candidate;    // 0: baseline; else 1 + place in candidate order
  const AccuracyRecord* record;

  auto group() const { return std::tie(stage, task); }
  auto key() const { return std::tie(stage, task, example, candidate); }
};

/// Places in candidate order of every candidate of the table, where no plan says otherwise.
std::vector<std::uint32_t> default_order(const TextPool& candidates) {
  std::vector<std::uint32_t> order(candidates.size()), places(candidates.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return candidate_before(candidates.text(a), candidates.text(b));
  });
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i]] = static_cast<std::uint32_t>(i);
  return places;
}

[[noreturn]] void refuse_duplicate(const RecordTable& table, const Entry& a, const Entry& b) {
  const AccuracyRecord *first = a.record, *second = b.record;
  if (std::tie(second->file, second->line) < std::tie(first->file, first->line)) std::swap(first, second);
  throw UserError(table.place(*second) + ": expected one record of task " +
                      rope::quoted(table.tasks.text(first->task)) + ", stage " + std::to_string(a.stage) +
                      ", candidate " + rope::quoted(table.candidates.text(first->candidate)) + ", example " +
                      rope::quoted(table.examples.text(first->example)) + ", found another at " +
                      table.place(*first),
                  "were the records of two runs put together, or is a stage column missing?");
}

/// Groups entries that are sorted; those of one group are [first, last).
class GroupMaker {
 public:
  GroupMaker(const RecordTable& table, const RecordStages& stages) : table_(table), stages_(stages) {}

  JoinedGroup make(const Entry* first, const Entry* last) const {
    JoinedGroup group;
    group.task.task = table_.tasks.text(first->record->task);
    group.task.stage = static_cast<int>(first->stage);
    group.task.direction = stages_.direction(first->record->task, group.task.stage);
    const std::vector<std::uint32_t> candidates = candidates_of(first, last, group.task);
    group.runs.candidates = candidates.size();
    std::vector<char> row(candidates.size() + 1);
    while (first != last) {
      const Entry* next = first;
      std::fill(row.begin(), row.end(), char{-1});
      for (; next != last && next->example == first->example; ++next)
        row[column(candidates, next->candidate)] = next->record->correct;
      add_example(table_.examples.text(first->record->example), row, group);
      first = next;
    }
    return group;
  }

 private:
  /// Candidate places that occur, rising; names them in `task`.
  std::vector<std::uint32_t> candidates_of(const Entry* first, const Entry* last, TaskOutcome& task) const {
    std::map<std::uint32_t, std::uint32_t> found;  // place to candidate
    for (const Entry* e = first; e != last; ++e) {
      if (e->candidate > 0) found.emplace(e->candidate, e->record->candidate);
      if (found.size() > kMostCandidates)
        throw UserError(table_.place(*e->record) + ": expected at most " + std::to_string(kMostCandidates) +
                            " candidates of task " + rope::quoted(task.task) + ", found more",
                        "which column holds the candidate?");
    }
    std::vector<std::uint32_t> places;
    for (const auto& [place, candidate] : found) {
      places.push_back(place);
      task.candidates.push_back({});
      task.candidates.back().candidate = table_.candidates.text(candidate);
    }
    return places;
  }

  static std::size_t column(const std::vector<std::uint32_t>& candidates, std::uint32_t place) {
    if (place == 0) return 0;
    const auto at = std::lower_bound(candidates.begin(), candidates.end(), place);
    return static_cast<std::size_t>(at - candidates.begin()) + 1;
  }

  static void add_example(const std::string& id, const std::vector<char>& row, JoinedGroup& group) {
    ++group.task.planned;
    UnmatchedExample example{id, {}};
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i] < 0) example.missing.push_back(i == 0 ? kBaseline : group.task.candidates[i - 1].candidate);
    if (!example.missing.empty()) {
      group.task.unmatched.push_back(std::move(example));
      return;
    }
    ++group.task.matched;
    group.runs.correct.insert(group.runs.correct.end(), row.begin(), row.end());
  }

  const RecordTable& table_;
  const RecordStages& stages_;
};

std::vector<Entry> sorted_entries(const RecordTable& table, RecordStages& stages) {
  const auto task_ranks = table.tasks.ranks(), example_ranks = table.examples.ranks();
  const auto places = default_order(table.candidates);
  std::vector<Entry> entries;
  entries.reserve(table.records.size());
  for (const AccuracyRecord& record : table.records)
    for (const int stage : stages.of(record)) {
      const std::optional<std::uint32_t> place = stages.place(record, stage, places[record.candidate]);
      entries.push_back({static_cast<std::uint32_t>(stage), task_ranks[record.task],
                         example_ranks[record.example], place.value_or(kLeftOut + places[record.candidate]),
                         &record});
    }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key() < b.key(); });
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].key() == entries[i - 1].key()) refuse_duplicate(table, entries[i - 1], entries[i]);
  std::erase_if(entries, [](const Entry& e) { return e.candidate >= kLeftOut; });
  return entries;
}

}  // namespace

JoinedRecords join_records(const RecordTable& table, const std::optional<OutcomePlan>& plan) {
  RecordStages stages(table, plan);
  const std::vector<Entry> entries = sorted_entries(table, stages);
  const GroupMaker maker(table, stages);
  JoinedRecords joined;
  for (std::size_t first = 0, last = 0; first < entries.size(); first = last) {
    while (last < entries.size() && entries[last].group() == entries[first].group()) ++last;
    JoinedGroup group = maker.make(entries.data() + first, entries.data() + last);
    if (group.task.candidates.empty())
      joined.left_out.push_back({LeftOut::Reason::kNoCandidate, group.task.task, group.task.stage, kBaseline,
                                 static_cast<std::int64_t>(last - first)});
    else
      joined.groups.push_back(std::move(group));
  }
  stages.list_left_out(joined.left_out);
  std::sort(joined.left_out.begin(), joined.left_out.end(), [](const LeftOut& a, const LeftOut& b) {
    return std::tie(a.stage, a.task, a.candidate) < std::tie(b.stage, b.task, b.candidate);
  });
  return joined;
}

}  // namespace rope::detail
