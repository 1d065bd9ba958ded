#include "profiler/ranking.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "profiler/bootstrap.hpp"
#include "profiler/error.hpp"
#include "support/compare.hpp"
#include "support/csv.hpp"
#include "support/make_profile.hpp"
#include "support/run_cli.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const double kNaN = std::nan("");

/// Ranks by counting, straight from their definition.
double slow_rank(const std::vector<double>& values, std::size_t i, bool average) {
  double larger = 0, equal = 0;
  for (const double v : values) {
    larger += v > values[i];
    equal += v == values[i];
  }
  return average ? larger + (equal + 1) / 2 : larger + 1;
}

/// w_S of the paper's settings, by model.
std::map<std::string, std::vector<double>> paper_susceptibility() {
  std::map<std::string, std::vector<double>> models;
  const auto records =
      parse_csv(read_file(std::string(ROPE_SOURCE_DIR) + "/tests/data/reference/paper_ranks.csv"));
  for (std::size_t i = 1; i < records.size(); ++i)
    models[records[i][0]].push_back(std::stod(records[i][2]) / 96);
  return models;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return detail::quantile(values, 0.5);
}

ScoreTable random_table(std::uint64_t seed, int tasks, int examples) {
  std::mt19937_64 generator(seed);
  ScoreTable table;
  table.heads = 2;
  ScoreCube semantic, positional;
  for (int t = 0; t < tasks; ++t) {
    table.tasks.push_back("task " + std::to_string(t));
    semantic.emplace_back();
    positional.emplace_back();
    for (int e = 0; e < examples; ++e) {
      semantic.back().push_back({unit(generator) + 0.05 * t, unit(generator)});
      positional.back().push_back({unit(generator), unit(generator) - 0.05 * t});
    }
  }
  table.scores = {{Score::kSemantic, semantic}, {Score::kPositional, positional}};
  return table;
}

Ranking rank_table(const ScoreTable& table, const BootstrapOptions& options) {
  TempDir folder;
  make_profile(folder / "p.h5", table);
  return rank_profile(ProfileReader(folder / "p.h5"), options);
}

bool same_rows(const std::vector<RankedTask>& a, const std::vector<RankedTask>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].task != b[i].task || a[i].w_s != b[i].w_s || a[i].w_s_low != b[i].w_s_low ||
        a[i].w_s_high != b[i].w_s_high || a[i].r_s_low != b[i].r_s_low || a[i].r_p_high != b[i].r_p_high ||
        a[i].direction_probability != b[i].direction_probability)
      return false;
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("ranks: two tie rules") {
  const std::vector<double> values{5, 3, 9, 3, 1};
  CHECK(competition_ranks(values) == std::vector<double>{2, 3, 1, 3, 5});
  CHECK(average_ranks(values) == std::vector<double>{2, 3.5, 1, 3.5, 5});
  CHECK(competition_ranks({}).empty());
  std::mt19937_64 generator(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> random;
    const std::size_t n = 1 + generator() % 30;
    for (std::size_t i = 0; i < n; ++i) random.push_back(static_cast<double>(generator() % 8));
    const auto competition = competition_ranks(random), average = average_ranks(random);
    for (std::size_t i = 0; i < random.size(); ++i) {
      CHECK(competition[i] == slow_rank(random, i, false));
      CHECK(average[i] == slow_rank(random, i, true));
    }
  }
}

TEST_CASE("the paper's 49 settings: medians, directions, Spearman") {
  const auto models = paper_susceptibility();
  REQUIRE(models.size() == 2);
  const auto& qwen = models.at("Qwen3-8B");
  const auto& llama = models.at("Llama-3.1-8B-Instruct");
  REQUIRE(qwen.size() == 49);
  REQUIRE(llama.size() == 49);
  CHECK(median(qwen) == 0.5);
  CHECK(median(llama) == 0.5625);
  const auto count = [](const std::vector<double>& w, Direction direction) {
    const auto found = directions(w);
    return std::count(found.begin(), found.end(), direction);
  };
  CHECK(count(qwen, Direction::kSemantic) == 24);
  CHECK(count(qwen, Direction::kPositional) == 25);
  CHECK(count(llama, Direction::kSemantic) == 23);
  CHECK(count(llama, Direction::kPositional) == 26);
  CHECK(std::abs(spearman(qwen, llama) - 0.6579834722700924) <= 4e-16);
}

TEST_CASE("the paper's directions, setting by setting") {
  const std::string folder = std::string(ROPE_SOURCE_DIR) + "/tests/data/reference/";
  std::map<std::pair<std::string, std::string>, std::string> printed;
  for (const auto& r : parse_csv(read_file(folder + "paper_results.csv"))) printed[{r[0], r[1]}] = r[3];
  const auto ranks = parse_csv(read_file(folder + "paper_ranks.csv"));
  for (const char* model : {"Qwen3-8B", "Llama-3.1-8B-Instruct"}) {
    std::vector<std::string> settings;
    for (const auto& r : ranks)
      if (r[0] == model) settings.push_back(r[1]);
    const auto found = directions(paper_susceptibility().at(model));
    REQUIRE(found.size() == settings.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(printed.at({model, settings[i]}) == direction_name(found[i]));
  }
}

TEST_CASE("susceptibility and direction at the edges") {
  CHECK(susceptibility(std::vector<double>{3, 2, 1}, std::vector<double>{1, 2, 3}) ==
        std::vector<double>{0, 0.5, 1});
  CHECK(susceptibility(std::vector<double>{3}, std::vector<double>{1}) == std::vector<double>{0.5});
  CHECK(directions(std::vector<double>{0.5}) == std::vector<Direction>{Direction::kNone});
  CHECK(directions(std::vector<double>{0.5, 0.5, 0.5}) == std::vector<Direction>(3, Direction::kNone));
  CHECK(directions({}).empty());
  // Average ranks 1, 2.5, 2.5, 4: a tie across the middle goes to positional.
  CHECK(directions(std::vector<double>{0.9, 0.5, 0.5, 0.1}) ==
        std::vector<Direction>{Direction::kSemantic, Direction::kPositional, Direction::kPositional,
                               Direction::kPositional});
  // 1.5 of 4 both below the middle.
  CHECK(directions(std::vector<double>{0.9, 0.9, 0.5, 0.1})[1] == Direction::kSemantic);
  // 2 of 4 is exactly one half.
  CHECK(directions(std::vector<double>{0.9, 0.8, 0.5, 0.1})[1] == Direction::kSemantic);
}

TEST_CASE("Spearman: perfect, reversed, constant") {
  const std::vector<double> a{1, 2, 3, 4}, b{10, 20, 35, 36}, c{4, 3, 2, 1}, flat{1, 1, 1, 1};
  CHECK(spearman(a, b) == 1);
  CHECK(spearman(a, c) == -1);
  CHECK(std::isnan(spearman(a, flat)));
  CHECK(std::isnan(spearman(std::vector<double>{1}, std::vector<double>{2})));
  CHECK(std::isnan(spearman(a, std::vector<double>{1, 2})));
}

TEST_CASE("a profile's tasks are ranked by falling w_S, ties by name; incomplete ones are listed") {
  ScoreTable table;
  table.tasks = {"a", "b", "c", "d", "e"};
  table.heads = 2;
  // Task d lacks one score wholly, e has heads and examples without a value.
  table.scores = {{Score::kSemantic,
                   {{{0.1, 0.3}}, {{0.9, 0.9}}, {{0.5, 0.5}}, {{0.4, 0.4}}, {{kNaN, kNaN}, {0.7, kNaN}}}},
                  {Score::kPositional, {{{5, 5}}, {{1, 1}}, {{4, 4}}, {{kNaN, kNaN}}, {{3, kNaN}, {2, 3}}}}};
  const Ranking ranking = rank_table(table, {0, 1, 1});
  REQUIRE(ranking.tasks.size() == 4);
  CHECK(ranking.unranked == std::vector<std::string>{"d"});
  REQUIRE(ranking.unranked_tasks.size() == 1);
  CHECK(ranking.unranked_tasks[0].semantic_score == doctest::Approx(0.4));
  CHECK(std::isnan(ranking.unranked_tasks[0].w_s));
  // r_S: b 1, e 2, c 3, a 4; r_P: a 1, c 2, e 3, b 4.
  const auto& first = ranking.tasks[0];
  CHECK(first.task == "a");
  CHECK(first.semantic_score == doctest::Approx(0.2));
  CHECK(first.r_s == 4);
  CHECK(first.r_p == 1);
  CHECK(first.w_s == 1);
  CHECK(first.w_p == 0);
  CHECK(first.direction == Direction::kSemantic);
  CHECK(std::isnan(first.w_s_low));
  CHECK(std::isnan(first.direction_probability));
  CHECK(ranking.tasks[1].task == "c");
  CHECK(ranking.tasks[2].task == "e");
  CHECK(ranking.tasks[2].semantic_score == 0.7);
  CHECK(ranking.tasks[2].positional_score == 2.75);
  CHECK(ranking.tasks[3].direction == Direction::kPositional);
}

TEST_CASE("ties of w_S go by name, and one task has no direction") {
  ScoreTable table;
  table.tasks = {"a", "b"};
  table.scores = {{Score::kSemantic, {{{0.1}}, {{0.1}}}}, {Score::kPositional, {{{2}}, {{2}}}}};
  const Ranking ranking = rank_table(table, {50, 1, 1});
  CHECK(ranking.tasks[0].task == "a");
  CHECK(ranking.tasks[0].direction == Direction::kNone);
  CHECK(ranking.tasks[0].direction_probability == 1);
  table.tasks = {"a"};
  table.scores = {{Score::kSemantic, {{{0.1}, {0.2}}}}, {Score::kPositional, {{{2}, {3}}}}};
  const Ranking one = rank_table(table, {50, 1, 1});
  CHECK(one.tasks[0].w_s == 0.5);
  CHECK(one.tasks[0].w_s_low == 0.5);
  CHECK(one.tasks[0].w_s_high == 0.5);
  CHECK(one.tasks[0].direction == Direction::kNone);
}

TEST_CASE("bootstrap: the same for any number of threads, not for another seed") {
  const ScoreTable table = random_table(5, 7, 20);
  const Ranking one = rank_table(table, {300, 11, 1});
  for (const int threads : {2, 3, 8})
    CHECK(same_rows(one.tasks, rank_table(table, {300, 11, threads}).tasks));
  CHECK_FALSE(same_rows(one.tasks, rank_table(table, {300, 12, 1}).tasks));
  CHECK(one.seed == 11);
  CHECK(one.resamples == 300);
}

TEST_CASE("bootstrap: a task's draws do not depend on the other tasks") {
  const detail::TaskValues a{"a", {1, 2, 3, 4}, {5, 6, 7, 8}}, b{"b", {1, 0}, {0, 1}};
  const auto alone = detail::resample_tasks({b}, {40, 3, 1}),
             both = detail::resample_tasks({a, b}, {40, 3, 2});
  CHECK(std::equal(alone.semantic.begin(), alone.semantic.end(), both.semantic.begin() + 40));
  // The same examples for both scores: here the positional value is the semantic one plus 4.
  for (std::size_t i = 0; i < 40; ++i) CHECK(both.positional[i] == both.semantic[i] + 4);
}

TEST_CASE("bootstrap: intervals agree with a slow resampling by other random numbers") {
  const ScoreTable table = random_table(8, 6, 15);
  const Ranking ranking = rank_table(table, {20000, 4, 0});
  std::mt19937_64 generator(77);
  const std::size_t tasks = 6, examples = 15;
  const int rounds = 20000;
  std::vector<std::vector<double>> w_s(tasks), r_s(tasks);
  std::vector<double> kept(tasks, 0);
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> semantic(tasks, 0), positional(tasks, 0), w(tasks);
    for (std::size_t t = 0; t < tasks; ++t)
      for (std::size_t i = 0; i < examples; ++i) {
        const std::size_t e = generator() % examples;
        for (std::size_t h = 0; h < 2; ++h) {
          semantic[t] += table.scores[0].second[t][e][h];
          positional[t] += table.scores[1].second[t][e][h];
        }
      }
    for (std::size_t t = 0; t < tasks; ++t) {
      w[t] = 0.5 + (slow_rank(semantic, t, false) - slow_rank(positional, t, false)) / 10.0;
      w_s[t].push_back(w[t]);
      r_s[t].push_back(slow_rank(semantic, t, false));
    }
    const bool flat = std::all_of(w.begin(), w.end(), [&](double x) { return x == w[0]; });
    for (const auto& row : ranking.tasks) {
      const auto t = static_cast<std::size_t>(row.task.back() - '0');
      const bool semantic_side = slow_rank(w, t, true) / 6.0 <= 0.5;
      kept[t] += !flat && semantic_side == (row.direction == Direction::kSemantic);
    }
  }
  for (const auto& row : ranking.tasks) {
    const auto t = static_cast<std::size_t>(row.task.back() - '0');
    std::sort(w_s[t].begin(), w_s[t].end());
    std::sort(r_s[t].begin(), r_s[t].end());
    CAPTURE(row.task);
    // Ranks are discrete: a quantile may sit on a step, so one step is allowed for; the probability's
    // standard error is below 0.005 on each side.
    CHECK(std::abs(row.w_s_low - detail::quantile(w_s[t], 0.025)) <= 0.1 + 1e-12);
    CHECK(std::abs(row.w_s_high - detail::quantile(w_s[t], 0.975)) <= 0.1 + 1e-12);
    CHECK(std::abs(row.r_s_low - detail::quantile(r_s[t], 0.025)) <= 1);
    CHECK(std::abs(row.direction_probability - kept[t] / rounds) <= 0.02);
    CHECK(row.w_s_low <= row.w_s);
    CHECK(row.w_s <= row.w_s_high);
  }
}

TEST_CASE("bootstrap: a draw without a value is drawn anew") {
  const detail::TaskValues sparse{"s", {1, kNaN, kNaN}, {kNaN, kNaN, 2}};
  const auto all = detail::resample_tasks({sparse}, {500, 9, 1});
  for (const double value : all.semantic) CHECK(value == 1);
  for (const double value : all.positional) CHECK(value == 2);
}

TEST_CASE("bootstrap: indexes are uniform") {
  std::vector<double> values(5);
  for (std::size_t i = 0; i < 5; ++i) values[i] = i == 3 ? 1.0 : 0.0;
  const auto all = detail::resample_tasks({{"u", values, values}}, {20000, 1, 1});
  double mean = 0;
  for (const double value : all.semantic) mean += value / 20000;
  CHECK(std::abs(mean - 0.2) < 0.2 * 0.02);  // 100,000 draws: standard error 0.0013
}

TEST_CASE("quantiles are linear between order statistics") {
  const std::vector<double> values{1, 2, 4, 8};
  CHECK(detail::quantile(values, 0) == 1);
  CHECK(detail::quantile(values, 1) == 8);
  CHECK(detail::quantile(values, 0.5) == 3);
  CHECK(detail::quantile(values, 0.025) == doctest::Approx(1.075));
  CHECK(detail::quantile(std::vector<double>{7}, 0.975) == 7);
}

TEST_CASE("bootstrap: 49 tasks of 2,211 examples, 2,000 resamples, in seconds") {
  std::mt19937_64 generator(1);
  std::vector<detail::TaskValues> tasks;
  for (int t = 0; t < 49; ++t) {
    detail::TaskValues task{"task " + std::to_string(t), {}, {}};
    for (int e = 0; e < 2211; ++e) {
      task.semantic.push_back(unit(generator));
      task.positional.push_back(unit(generator));
    }
    tasks.push_back(task);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto all = detail::resample_tasks(tasks, {2000, 1, 0});
  std::vector<RankedTask> ranked(49);
  detail::add_intervals(ranked, all, 0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE("seconds: ", seconds);
  CHECK(seconds < 60);  // about one; the bound is for sanitizers and busy machines
  CHECK(all.semantic.size() == 49u * 2000u);
}

TEST_CASE("absurd numbers of resamples are refused") {
  const ScoreTable table = random_table(5, 2, 3);
  CHECK_THROWS_AS(rank_table(table, {-1, 1, 1}), UserError);
  CHECK_THROWS_AS(rank_table(table, {std::int64_t{1} << 60, 1, 1}), UserError);
}

TEST_SUITE_END();
