#include "interventions/outcome.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

#include "interventions/mcnemar.hpp"
#include "profiler/error.hpp"
#include "support/compare.hpp"
#include "support/paper_records.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const double kNaN = std::nan("");

Outcome measure(const std::vector<PaperRecord>& records, const std::optional<OutcomePlan>& plan = {},
                std::int64_t resamples = 0, int threads = 1, std::uint64_t seed = 5) {
  OutcomeOptions options;
  options.resamples = resamples;
  options.seed = seed;
  options.threads = threads;
  return measure_outcome(table_of(records), plan, options);
}

/// Records of one task: row e of `runs` holds the baseline and the candidates of example e, '1' solved,
/// '0' not, '.' no record.
std::vector<PaperRecord> records_of(const std::string& task, const std::vector<std::string>& candidates,
                                    const std::vector<std::string>& runs, int stage = 0) {
  std::vector<PaperRecord> records;
  for (std::size_t e = 0; e < runs.size(); ++e)
    for (std::size_t c = 0; c < runs[e].size(); ++c)
      if (runs[e][c] != '.')
        records.push_back({task, "id" + std::to_string(e), c == 0 ? kBaseline : candidates[c - 1], stage,
                           runs[e][c] == '1'});
  return records;
}

std::vector<std::string> candidates_of(const TaskOutcome& task) {
  std::vector<std::string> names;
  for (const auto& c : task.candidates) names.push_back(c.candidate);
  return names;
}

std::string best_of(const TaskOutcome& task) {
  return task.best < 0 ? "-" : task.candidates[static_cast<std::size_t>(task.best)].candidate;
}

/// The statistics once more, directly from their definitions, over the complete rows.
struct Direct {
  std::size_t best = 0;
  double best_change = 0, held_out = kNaN, p = 1;
};
double mean_change(const std::vector<std::string>& rows, std::size_t c, std::size_t without) {
  double sum = 0, count = 0;
  for (std::size_t e = 0; e < rows.size(); ++e) {
    if (e == without) continue;
    sum += (rows[e][c + 1] == '1') - (rows[e][0] == '1');
    ++count;
  }
  return std::round(sum) / count;
}
std::size_t choose(const std::vector<std::string>& rows, std::size_t candidates, std::size_t without) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < candidates; ++c)
    if (mean_change(rows, c, without) > mean_change(rows, best, without)) best = c;
  return best;
}
Direct direct(const std::vector<std::string>& rows, std::size_t candidates) {
  Direct d;
  d.best = choose(rows, candidates, rows.size());
  d.best_change = mean_change(rows, d.best, rows.size());
  double sum = 0;
  for (std::size_t e = 0; e < rows.size(); ++e) {
    const std::size_t chosen = choose(rows, candidates, e);
    sum += (rows[e][chosen + 1] == '1') - (rows[e][0] == '1');
  }
  if (rows.size() > 1) d.held_out = sum / static_cast<double>(rows.size());
  std::int64_t gained = 0, lost = 0;
  for (const auto& row : rows) {
    gained += row[d.best + 1] > row[0];
    lost += row[d.best + 1] < row[0];
  }
  d.p = mcnemar_p(gained, lost);
  return d;
}

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("outcome: one small task by hand") {
  // Changes: 0.5: +1 +1 -1 = +1, NR: +1 +1 = +2, 2: 0. Order NR, 0.5, 2.
  const auto records = records_of("t", {"0.5", "2", "NR"}, {"0101", "0001", "0100", "1011", "1111", "0.11"});
  const Outcome outcome = measure(records);
  REQUIRE(outcome.tasks.size() == 1);
  const TaskOutcome& task = outcome.tasks[0];
  CHECK(task.task == "t");
  CHECK(task.stage == 5);
  CHECK_FALSE(task.direction.has_value());
  CHECK(task.planned == 6);
  CHECK(task.matched == 5);
  CHECK(candidates_of(task) == std::vector<std::string>{"NR", "0.5", "2"});
  REQUIRE(task.unmatched.size() == 1);
  CHECK(task.unmatched[0].example_id == "id5");
  CHECK(task.unmatched[0].missing == std::vector<std::string>{"0.5"});
  CHECK(task.baseline_accuracy == 0.4);
  CHECK(best_of(task) == "NR");
  CHECK(task.candidates[0].accuracy == 0.8);
  CHECK(task.best_change == 0.4);
  CHECK(task.candidates[0].gained == 2);
  CHECK(task.candidates[0].lost == 0);
  CHECK(task.candidates[1].gained == 2);
  CHECK(task.candidates[1].lost == 1);
  CHECK(task.candidates[1].p_value == 1);
  CHECK(task.p_value == 0.5);
  CHECK(task.p_holm == 0.5);
  CHECK(*task.improved);
  // Without id0 or id1 NR has +1: after id0 0.5 has 0, after id1 0.5 has +1, NR comes first. NR always: 2/5.
  CHECK(task.held_out_change == 0.4);
  CHECK(task.optimism == 0);
}

TEST_CASE("outcome: the held-out choice differs from the best one") {
  // a and b gain one example each; without it the other is chosen, which does nothing for it.
  const Outcome outcome = measure(records_of("t", {"a", "b"}, {"010", "001", "000", "000"}));
  const TaskOutcome& task = outcome.tasks[0];
  CHECK(task.best_change == 0.25);
  CHECK(best_of(task) == "a");
  CHECK(task.held_out_change == 0);
  CHECK(task.optimism == 0.25);
  // Ties go to the first, held out too: without id1 a has 1, b has 0 -> a, which scores 0 on id1.
  const Outcome tie = measure(records_of("t", {"a", "b"}, {"111", "001", "010", "011"}));
  CHECK(best_of(tie.tasks[0]) == "a");
  CHECK(tie.tasks[0].best_change == 0.5);
  CHECK(tie.tasks[0].held_out_change == (0 + 0 + 0 + 1) / 4.0);
}

TEST_CASE("outcome: random records against the definitions") {
  std::mt19937_64 generator(11);
  std::vector<double> value, expected;
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::string> names{"NR", "0", "0.25", "1.5"};
    const std::size_t candidates = 1 + generator() % 4, examples = 1 + generator() % 12;
    std::vector<std::string> runs(examples), complete;
    for (auto& run : runs) {
      for (std::size_t c = 0; c <= candidates; ++c)
        run += generator() % 12 == 0 ? '.' : "01"[generator() % 2];
      if (run.find('.') == std::string::npos) complete.push_back(run);
    }
    // Every candidate, and the baseline, occur somewhere.
    runs.push_back(std::string(candidates + 1, '1'));
    complete.push_back(runs.back());
    auto records = records_of("t", names, runs);
    shuffle(records, generator);
    const Outcome outcome = measure(records);
    REQUIRE(outcome.tasks.size() == 1);
    const TaskOutcome& task = outcome.tasks[0];
    const Direct reference = direct(complete, candidates);
    CHECK(task.matched == static_cast<std::int64_t>(complete.size()));
    CHECK(task.best == static_cast<int>(reference.best));
    CHECK(*task.improved == (reference.best_change > 0));
    for (const double v : {task.best_change, task.held_out_change, task.p_value}) value.push_back(v);
    for (const double v : {reference.best_change, reference.held_out, reference.p}) expected.push_back(v);
  }
  CHECK_COMPARISON(compare_absolute("random records", value, expected, 1e-14, true));
}

TEST_CASE("outcome: Holm runs over the tasks of a stage, and over those that were measured") {
  std::vector<PaperRecord> records;
  const auto add = [&](const std::string& task, int gained, int stage) {
    std::vector<std::string> runs(static_cast<std::size_t>(gained), "01");
    runs.push_back("11");
    for (const auto& r : records_of(task, {"NR"}, runs, stage)) records.push_back(r);
  };
  add("a", 10, 5);
  add("b", 6, 5);
  add("c", 1, 5);
  add("d", 10, 10);
  for (const auto& r : records_of("e", {"NR"}, {"1.", ".1"}, 5)) records.push_back(r);
  const Outcome outcome = measure(records);
  REQUIRE(outcome.tasks.size() == 5);
  CHECK(outcome.tasks[0].p_holm == 3 * 0x1p-9);
  CHECK(outcome.tasks[1].p_holm == 2 * 0x1p-5);
  CHECK(outcome.tasks[2].p_holm == 1);
  CHECK(outcome.tasks[3].task == "e");
  CHECK(std::isnan(outcome.tasks[3].p_holm));
  CHECK(outcome.tasks[3].matched == 0);
  CHECK_FALSE(outcome.tasks[3].improved.has_value());
  CHECK(outcome.tasks[3].best == -1);
  CHECK(std::isnan(outcome.tasks[3].baseline_accuracy));
  CHECK(outcome.tasks[4].stage == 10);
  CHECK(outcome.tasks[4].p_holm == 0x1p-9);
  const auto totals = stage_totals(outcome);
  CHECK(totals[0].tasks == 4);
  CHECK(totals[0].measured == 3);
  CHECK(totals[0].improved == 3);
  CHECK(totals[0].significant == 1);
}

TEST_CASE("outcome: a single matched example has no held-out choice") {
  const TaskOutcome task = measure(records_of("t", {"NR"}, {"01"}), {}, 20).tasks[0];
  CHECK(task.best_change == 1);
  CHECK(std::isnan(task.held_out_change));
  CHECK(std::isnan(task.optimism));
  CHECK(task.best_change_low == 1);
}

TEST_CASE("outcome: candidate order without a plan") {
  const std::vector<std::string> order{"NR", "0", "0.25", "0.5", "0.50", "2", "10", "+x", "2x", "nan", "top"};
  for (std::size_t a = 0; a < order.size(); ++a)
    for (std::size_t b = 0; b < order.size(); ++b) {
      CAPTURE(order[a]);
      CAPTURE(order[b]);
      CHECK(candidate_before(order[a], order[b]) == (a < b));
    }
  const Outcome outcome = measure(records_of("t", {"x", "2", "0", "NR", "10"}, {"000000"}));
  CHECK(candidates_of(outcome.tasks[0]) == std::vector<std::string>{"NR", "0", "2", "10", "x"});
}

TEST_CASE("outcome: a plan gives order and direction, and what it lacks is named") {
  const OutcomePlan plan{{"t", 5, Direction::kPositional, {"2.5", "1.5", "2"}},
                         {"idle", 5, Direction::kSemantic, {"NR", "0"}},
                         {"flat", 5, Direction::kNone, {}}};
  auto records = records_of("t", {"1.5", "2.5", "9"}, {"0110", "0111"});
  for (const auto& r : records_of("extra", {"NR"}, {"01"})) records.push_back(r);
  const Outcome outcome = measure(records, plan);
  REQUIRE(outcome.tasks.size() == 1);
  CHECK(candidates_of(outcome.tasks[0]) == std::vector<std::string>{"2.5", "1.5"});
  CHECK(best_of(outcome.tasks[0]) == "2.5");  // a tie: the plan's first
  CHECK(outcome.tasks[0].direction == Direction::kPositional);
  CHECK(outcome.tasks[0].matched == 2);
  using Row = std::tuple<std::string, std::string, std::string, std::int64_t>;
  std::vector<Row> left;
  for (const LeftOut& l : outcome.left_out)
    left.emplace_back(reason_name(l.reason), l.task, l.candidate, l.records);
  CHECK(left == std::vector<Row>{{"task_not_in_plan", "extra", "NR", 1},
                                 {"task_not_in_plan", "extra", "baseline", 1},
                                 {"not_measured", "idle", "", 0},
                                 {"not_measured", "t", "2", 0},
                                 {"candidate_not_in_plan", "t", "9", 2}});
}

TEST_CASE("outcome: stages of records that do not say") {
  using Stages = std::vector<std::pair<int, std::int64_t>>;  // stage, matched
  const auto stages = [](const std::vector<PaperRecord>& records,
                         const std::optional<OutcomePlan>& plan = {}) {
    Stages found;
    for (const TaskOutcome& task : measure(records, plan).tasks) found.emplace_back(task.stage, task.matched);
    return found;
  };
  const auto join = [](std::vector<PaperRecord> a, const std::vector<PaperRecord>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const auto five = records_of("t", {"NR"}, {"00", "01"}, 5), ten = records_of("t", {"2"}, {"00", "01"}, 10);
  const auto silent = records_of("t", {"NR"}, {"00", "01"}, 0);
  const auto only_baseline = records_of("t", {}, {"0", "1", "1"}, 0);
  const auto ten_without = records_of("t", {"2"}, {".0", ".1"}, 10);
  CHECK(stages(silent) == Stages{{5, 2}});
  CHECK(stages(join(five, ten)) == Stages{{5, 2}, {10, 2}});
  CHECK(stages(join(silent, ten)) == Stages{{5, 2}, {10, 2}});          // each its own baseline
  CHECK(stages(join(silent, ten_without)) == Stages{{5, 2}, {10, 2}});  // one baseline for both
  CHECK(stages(join(only_baseline, ten_without)) == Stages{{10, 2}});
  const OutcomePlan plan_ten{{"t", 10, Direction::kSemantic, {"NR", "0.25"}}};
  CHECK(stages(silent, plan_ten) == Stages{{10, 2}});
  CHECK(stages(five, plan_ten) == Stages{});  // says stage 5, which the plan does not have
  const OutcomePlan both{{"t", 5, Direction::kSemantic, {"NR"}},
                         {"t", 10, Direction::kSemantic, {"NR", "2"}}};
  CHECK(stages(silent, both) == Stages{{5, 2}});
  const auto two = records_of("t", {"2"}, {".0", ".1"}, 0);
  CHECK(stages(join(silent, two), both) == Stages{{5, 2}, {10, 2}});
  // Baseline alone: no row, but named.
  const Outcome alone = measure(only_baseline);
  CHECK(alone.tasks.empty());
  REQUIRE(alone.left_out.size() == 1);
  CHECK(alone.left_out[0].reason == LeftOut::Reason::kNoCandidate);
  CHECK(alone.left_out[0].records == 3);
}

TEST_CASE("outcome: the same record twice is refused, whatever the order") {
  auto records = records_of("t\"a\nb", {"NR"}, {"01", "00"});
  records.push_back(records[1]);
  const auto message = [&] {
    try {
      measure(records);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string text = message();
  CHECK(text.find("records:5: expected one record of task") == 0);
  CHECK(text.find("found another at records:2") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
  records.back().stage = 5;  // said here, assumed there
  CHECK(message() == text);
  records.back().stage = 10;
  CHECK(message().empty());
  // Also where the plan has no such candidate.
  const auto left_out = records_of("t", {"9"}, {".1", ".1"});
  auto twice = left_out;
  twice.push_back(left_out[1]);
  const OutcomePlan plan{{"t", 5, Direction::kSemantic, {"NR"}}};
  CHECK_NOTHROW(measure(left_out, plan));
  CHECK_THROWS_AS(measure(twice, plan), UserError);
}

TEST_CASE("outcome: the bootstrap does not depend on threads or the order of records") {
  std::mt19937_64 generator(2);
  std::vector<PaperRecord> records;
  for (const char* task : {"b", "a"}) {
    std::vector<std::string> runs(150, "000");
    for (auto& run : runs)
      for (char& c : run) c = "01"[generator() % 2];
    for (const auto& r : records_of(task, {"NR", "0"}, runs)) records.push_back(r);
  }
  const auto numbers = [&](int threads, std::uint64_t seed = 5) {
    std::vector<double> all;
    for (const TaskOutcome& t : measure(records, {}, 1500, threads, seed).tasks) {
      for (const auto& c : t.candidates) all.insert(all.end(), {c.change, c.change_low, c.change_high});
      all.insert(all.end(), {t.best_change_low, t.best_change_high, t.held_out_change});
    }
    return all;
  };
  const auto one = numbers(1);
  CHECK(one == numbers(4));
  CHECK(one != numbers(1, 6));
  shuffle(records, generator);
  CHECK(one == numbers(2));
}

TEST_CASE("outcome: intervals are those of resampled examples") {
  // 400 examples, 60 gained, 40 lost by a; b gains 12 and loses 2.
  std::vector<std::string> runs;
  for (int e = 0; e < 400; ++e)
    runs.push_back(std::string(e >= 60 && e < 100 ? "10"
                               : e < 60           ? "01"
                                                  : "00") +
                   (e >= 98 && e < 100   ? "0"
                    : e < 12             ? "1"
                    : e >= 60 && e < 100 ? "1"
                                         : "0"));
  const TaskOutcome task = measure(records_of("t", {"a", "b"}, runs), {}, 20'000, 2).tasks[0];
  const auto normal = [](double gained, double lost) {
    const double n = 400, mean = (gained - lost) / n;
    const double deviation = std::sqrt(((gained + lost) / n - mean * mean) / n);
    return std::pair(mean - 1.959964 * deviation, mean + 1.959964 * deviation);
  };
  const auto a = normal(60, 40), b = normal(12, 2);
  const std::vector<double> found{task.candidates[0].change_low, task.candidates[0].change_high,
                                  task.candidates[1].change_low, task.candidates[1].change_high};
  CHECK_COMPARISON(compare_absolute("95 % intervals beside the normal ones", found,
                                    std::vector<double>{a.first, a.second, b.first, b.second}, 0.004));
  // The largest change of a resample is no smaller than either candidate's.
  CHECK(task.best_change_low >= std::max(found[0], found[2]));
  CHECK(task.best_change_high >= std::max(found[1], found[3]));
  const TaskOutcome all = measure(records_of("t", {"a"}, std::vector<std::string>(9, "01")), {}, 50).tasks[0];
  CHECK(all.candidates[0].change_low == 1);
  CHECK(all.candidates[0].change_high == 1);
  const TaskOutcome none = measure(records_of("t", {"a"}, {"01", "01"}), {}, 0).tasks[0];
  CHECK(std::isnan(none.candidates[0].change_low));
  CHECK(std::isnan(none.best_change_high));
}

TEST_SUITE_END();
