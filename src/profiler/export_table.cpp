#include "profiler/export_table.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/error.hpp"
#include "profiler/head_selection.hpp"
#include "profiler/task_summary.hpp"

namespace rope {
namespace {

using Cells = std::vector<Cell>;
using Scores = std::vector<Score>;

TableColumn text(const char* name) { return {name, CellType::kText}; }
TableColumn integer(const char* name) { return {name, CellType::kInteger}; }
TableColumn optional_integer(const char* name) { return {name, CellType::kInteger, true}; }
TableColumn real(const char* name) { return {name, CellType::kReal}; }
TableColumn boolean(const char* name) { return {name, CellType::kBool}; }

void append_scores(std::vector<TableColumn>& columns, const Scores& scores) {
  for (const Score score : scores) columns.push_back(real(column(score).name));
}

/// Scores of `scores` from an array indexed by Score.
template <class Array>
void append_values(Cells& cells, const Array& values, const Scores& scores) {
  for (const Score score : scores) cells.emplace_back(values[static_cast<std::size_t>(score)]);
}

Cell rank_cell(double rank) { return std::isnan(rank) ? Cell() : Cell(static_cast<std::int64_t>(rank)); }

// The columns that commands.md fixes, then those that follow.
const Scores kTaskScores{Score::kSemantic, Score::kPositional, Score::kNormShare, Score::kEffectiveLength};
const Scores kTaskScoresAfter{Score::kExactSemantic,     Score::kReversalGap,     Score::kResponseMax,
                              Score::kUsageCov,          Score::kUsageCentroid,   Score::kUsageNormCov,
                              Score::kUsageNormCentroid, Score::kFrequencyMass,   Score::kAliasing,
                              Score::kAliasingF16,       Score::kNearFarOrder,    Score::kNearFarGaussian,
                              Score::kBarrierExceedance, Score::kBarrierGaussian, Score::kBarrierLimit};
const Scores kHeadScores{
    Score::kSemantic,          Score::kPositional,      Score::kNormShare,     Score::kEffectiveLength,
    Score::kUsageCov,          Score::kUsageCentroid,   Score::kFrequencyMass, Score::kResponseMax,
    Score::kExactSemantic,     Score::kReversalGap,     Score::kUsageNormCov,  Score::kUsageNormCentroid,
    Score::kAliasing,          Score::kAliasingF16,     Score::kNearFarOrder,  Score::kNearFarGaussian,
    Score::kBarrierExceedance, Score::kBarrierGaussian, Score::kBarrierLimit};
const Scores kExampleScores{Score::kSemantic,    Score::kExactSemantic,   Score::kPositional,
                            Score::kNormShare,   Score::kEffectiveLength, Score::kResponseMax,
                            Score::kUsageCov,    Score::kUsageCentroid,   Score::kFrequencyMass,
                            Score::kReversalGap, Score::kUsageNormCov,    Score::kUsageNormCentroid,
                            Score::kAliasing};
const Scores kExampleScoresAfter{Score::kAliasingF16,       Score::kNearFarOrder,    Score::kNearFarGaussian,
                                 Score::kBarrierExceedance, Score::kBarrierGaussian, Score::kBarrierLimit};
const std::vector<Count> kExampleCounts{
    Count::kTriplets, Count::kTies,  Count::kUndefinedTriplets, Count::kNonFiniteTriplets,
    Count::kFragile,  Count::kPairs, Count::kUndefinedPairs,    Count::kNonFinitePairs};

TableSource tasks_table(const ProfileReader& profile) {
  TableSource table;
  table.columns = {text("task"),          text("family"),      integer("examples"),
                   integer("window_min"), real("window_mean"), integer("window_max")};
  append_scores(table.columns, kTaskScores);
  for (const char* name : {"triplets", "ties", "pairs", "undefined", "non_finite", "fragile"})
    table.columns.push_back(integer(name));
  append_scores(table.columns, kTaskScoresAfter);
  table.rows = [&profile](const RowSink& sink) {
    for (const TaskSummary& t : summarize_tasks(profile)) {
      Cells cells{t.task, t.family, t.examples, t.window_min, t.window_mean, t.window_max};
      append_values(cells, t.score, kTaskScores);
      for (const std::int64_t n : {t.triplets, t.ties, t.pairs, t.undefined, t.non_finite, t.fragile})
        cells.emplace_back(n);
      append_values(cells, t.score, kTaskScoresAfter);
      sink(cells);
    }
  };
  return table;
}

TableSource heads_table(const ProfileReader& profile) {
  TableSource table;
  table.columns = {text("task"), integer("layer"), integer("head"), boolean("selected")};
  append_scores(table.columns, kHeadScores);
  table.rows = [&profile](const RowSink& sink) {
    for (const auto& task : profile.tasks())
      for (const HeadSummary& row : summarize_heads(profile, task)) {
        const ProfileHead& head = profile.header().heads[static_cast<std::size_t>(row.head)];
        Cells cells{task.name, std::int64_t{head.layer}, std::int64_t{head.head}, row.selected};
        append_values(cells, row.score, kHeadScores);
        sink(cells);
      }
  };
  return table;
}

/// Rows [first, first + count) of a task, one per example and rotating head that the example stores.
void example_rows(const ProfileReader& profile, const ProfileTask& task, std::int64_t first,
                  std::int64_t count, const RowSink& sink) {
  const auto& heads = profile.header().heads;
  const auto ids = profile.example_ids(task, first, count);
  const auto windows = profile.read(task, Count::kLayerWindow, first, count);
  const auto high = profile.read(task, Count::kHighPairs, first, count);
  std::vector<std::vector<double>> scores;
  for (const Score score : kExampleScores) scores.push_back(profile.read(task, score, first, count));
  std::vector<std::vector<double>> after;
  for (const Score score : kExampleScoresAfter) after.push_back(profile.read(task, score, first, count));
  std::vector<std::vector<std::int64_t>> counts;
  for (const Count what : kExampleCounts) counts.push_back(profile.read(task, what, first, count));

  for (std::size_t at = 0; at < windows.size(); ++at) {
    const ProfileHead& head = heads[at % heads.size()];
    if (!head.rotates || windows[at] == 0) continue;
    Cells cells{task.name, ids[at / heads.size()],   windows[at],
                high[at],  std::int64_t{head.layer}, std::int64_t{head.head}};
    for (const auto& values : scores) cells.emplace_back(values[at]);
    for (const auto& values : counts) cells.emplace_back(values[at]);
    for (const auto& values : after) cells.emplace_back(values[at]);
    sink(cells);
  }
}

TableSource examples_table(const ProfileReader& profile) {
  TableSource table;
  table.columns = {text("task"),          text("example_id"), integer("window"),
                   integer("high_pairs"), integer("layer"),   integer("head")};
  append_scores(table.columns, kExampleScores);
  for (const Count what : kExampleCounts) table.columns.push_back(integer(column(what).name));
  append_scores(table.columns, kExampleScoresAfter);
  table.rows = [&profile](const RowSink& sink) {
    const auto heads = static_cast<std::int64_t>(std::max<std::size_t>(profile.header().heads.size(), 1));
    const std::int64_t block = std::max<std::int64_t>(1, (1 << 15) / heads);  // about 6 MB of columns
    for (const auto& task : profile.tasks())
      for (std::int64_t first = 0; first < task.examples; first += block)
        example_rows(profile, task, first, std::min(block, task.examples - first), sink);
  };
  return table;
}

TableSource frequencies_table(const ProfileReader& profile) {
  TableSource table;
  table.columns = {text("task"),  integer("layer"), integer("head"),    integer("pair"),
                   real("omega"), real("usage"),    real("usage_norm"), integer("examples")};
  table.rows = [&profile](const RowSink& sink) {
    for (const auto& task : profile.tasks())
      for (const UsageSpectrum& s : profile.usage(task))
        for (std::size_t row = 0; row < s.heads.size(); ++row) {
          const ProfileHead& head = profile.header().heads[static_cast<std::size_t>(s.heads[row])];
          for (std::size_t pair = 0; pair < s.omega.size(); ++pair) {
            const std::size_t at = row * s.omega.size() + pair;
            const Cells cells{task.name,
                              std::int64_t{head.layer},
                              std::int64_t{head.head},
                              static_cast<std::int64_t>(pair),
                              s.omega[pair],
                              s.usage[at],
                              s.usage_norm[at],
                              s.examples[row]};
            sink(cells);
          }
        }
  };
  return table;
}

const char* status_name(char status) {
  switch (static_cast<HeadStatus>(status)) {
    case HeadStatus::kRanked:
      return "ranked";
    case HeadStatus::kNoRotation:
      return "no_rotation";
    case HeadStatus::kMissingInTask:
      return "missing_in_task";
    default:
      return "undefined_in_task";
  }
}

/// Ranked heads in falling variance, then the rotating heads that cannot be selected. Where the variance is
/// undefined (one task) nothing is ranked and no stage can be told.
TableSource selection_table(const ProfileReader& profile) {
  TableSource table;
  table.columns = {
      optional_integer("rank"), integer("layer"), integer("head"), real("variance"), text("stage"),
      boolean("selected"),      text("status")};
  table.rows = [&profile](const RowSink& sink) {
    const HeadSelection& s = profile.selection();
    const auto emit = [&](std::size_t n, Cell rank, const char* stage) {
      const ProfileHead& head = profile.header().heads[n];
      const Cells cells{std::move(rank),
                        std::int64_t{head.layer},
                        std::int64_t{head.head},
                        s.variance[n],
                        std::string(stage),
                        s.selected[n] != 0,
                        std::string(status_name(s.status[n]))};
      sink(cells);
    };
    std::vector<char> listed(s.selected.size(), 0);
    for (std::size_t i = 0; i < s.order.size(); ++i) {
      const auto n = static_cast<std::size_t>(s.order[i]);
      listed[n] = 1;
      const auto position = static_cast<std::int64_t>(i);
      if (std::isnan(s.variance[n])) {
        emit(n, Cell(), "none");
        continue;
      }
      const int stage = stage_of(position, s.counted);
      emit(n, Cell(position + 1), stage == 5 ? "5" : stage == 10 ? "10" : "none");
    }
    for (std::size_t n = 0; n < listed.size(); ++n)
      if (!listed[n] && profile.header().heads[n].rotates) emit(n, Cell(), "none");
  };
  return table;
}

}  // namespace

const std::vector<std::string>& profile_table_names() {
  static const std::vector<std::string> names{"tasks",       "heads",     "examples",
                                              "frequencies", "selection", "ranking"};
  return names;
}

TableSource profile_table(const ProfileReader& profile, std::string_view name,
                          const BootstrapOptions& options) {
  if (name == "tasks") return tasks_table(profile);
  if (name == "heads") return heads_table(profile);
  if (name == "examples") return examples_table(profile);
  if (name == "frequencies") return frequencies_table(profile);
  if (name == "selection") return selection_table(profile);
  if (name == "ranking") return ranking_table(rank_profile(profile, options));
  throw usage_error("unknown table \"" + std::string(name) + "\"",
                    "tasks, heads, examples, frequencies, selection or ranking");
}

TableSource ranking_table(Ranking ranking) {
  TableSource table;
  table.columns = {text("task"),
                   real("semantic_score"),
                   real("positional_score"),
                   optional_integer("r_s"),
                   optional_integer("r_p"),
                   real("w_s"),
                   real("w_p"),
                   text("direction"),
                   real("w_s_low"),
                   real("w_s_high"),
                   real("r_s_low"),
                   real("r_s_high"),
                   real("r_p_low"),
                   real("r_p_high"),
                   real("direction_probability"),
                   text("family"),
                   integer("examples"),
                   real("window_mean")};
  table.rows = [ranking = std::move(ranking)](const RowSink& sink) {
    const auto emit = [&](const RankedTask& t, bool ranked) {
      const Cells cells{t.task,
                        t.semantic_score,
                        t.positional_score,
                        rank_cell(t.r_s),
                        rank_cell(t.r_p),
                        t.w_s,
                        t.w_p,
                        ranked ? Cell(std::string(direction_name(t.direction))) : Cell(),
                        t.w_s_low,
                        t.w_s_high,
                        t.r_s_low,
                        t.r_s_high,
                        t.r_p_low,
                        t.r_p_high,
                        t.direction_probability,
                        t.family,
                        t.examples,
                        t.window_mean};
      sink(cells);
    };
    for (const auto& task : ranking.tasks) emit(task, true);
    for (const auto& task : ranking.unranked_tasks) emit(task, false);
  };
  return table;
}

}  // namespace rope
