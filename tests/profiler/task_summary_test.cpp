#include "profiler/task_summary.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/make_profile.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const double kNaN = std::nan("");

double score_of(const TaskSummary& summary, Score score) {
  return summary.score[static_cast<std::size_t>(score)];
}
double score_of(const HeadSummary& summary, Score score) {
  return summary.score[static_cast<std::size_t>(score)];
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("averages: heads within an example first, then examples; missing parts are left out") {
  TempDir folder;
  ScoreTable table;
  table.tasks = {"t"};
  table.heads = 3;
  table.selected = {1, 1, 0};
  table.scores = {{Score::kSemantic, {{{0.2, 0.4, 9}, {0.8, kNaN, 9}, {kNaN, kNaN, 9}}}}};
  make_profile(folder / "p.h5", table);
  const ProfileReader profile(folder / "p.h5");
  const auto values = example_values(profile, profile.tasks()[0], Score::kSemantic);
  REQUIRE(values.size() == 3);
  CHECK(values[0] == doctest::Approx(0.3));
  CHECK(values[1] == 0.8);  // the mean of heads is not weighted by how many there are
  CHECK(std::isnan(values[2]));
  const auto tasks = summarize_tasks(profile);
  REQUIRE(tasks.size() == 1);
  CHECK(score_of(tasks[0], Score::kSemantic) == doctest::Approx(0.55));
  CHECK(std::isnan(score_of(tasks[0], Score::kPositional)));
  const auto heads = summarize_heads(profile, profile.tasks()[0]);
  REQUIRE(heads.size() == 3);
  CHECK(score_of(heads[0], Score::kSemantic) == doctest::Approx(0.5));
  CHECK(score_of(heads[1], Score::kSemantic) == 0.4);
  CHECK(score_of(heads[2], Score::kSemantic) == 9);
  CHECK(heads[0].selected);
  CHECK_FALSE(heads[2].selected);
}

TEST_CASE("counts are summed over selected heads; windows are the examples'") {
  TempDir folder;
  ProfileHeader header;
  header.num_layers = 2;
  header.heads = {{0, 0, true}, {0, 1, true}, {1, 0, true}, {1, 1, false}};
  const std::string path = folder / "p.h5";
  {
    ProfileWriter writer(path, false, header);
    writer.add_task({"t", "fam", "", 0, {0}, 2});
    for (std::int64_t row = 0; row < 2; ++row) {
      writer.put_example("t", row, std::to_string(row), 100 + 50 * row);
      for (int c = 0; c < static_cast<int>(Count::kCount); ++c)
        writer.put("t", static_cast<Count>(c), row, std::vector<std::int64_t>{c + 1, 100, 1000, 5000});
    }
    HeadSelection s;
    s.rule = "list";
    s.selected = {1, 0, 1, 0};
    s.variance.assign(4, kNaN);
    s.status.assign(4, 0);
    writer.put_selection(s);
    writer.commit();
  }
  const ProfileReader profile(path);
  const auto t = summarize_tasks(profile).at(0);
  const auto expected = [](Count c) { return 2 * (static_cast<int>(c) + 1 + 1000); };
  CHECK(t.family == "fam");
  CHECK(t.examples == 2);
  CHECK(t.window_min == 100);
  CHECK(t.window_max == 150);
  CHECK(t.window_mean == 125);
  CHECK(t.triplets == expected(Count::kTriplets));
  CHECK(t.ties == expected(Count::kTies));
  CHECK(t.pairs == expected(Count::kPairs));
  CHECK(t.undefined == expected(Count::kUndefinedPairs) + expected(Count::kUndefinedTriplets));
  CHECK(t.non_finite == expected(Count::kNonFinitePairs) + expected(Count::kNonFiniteTriplets));
  CHECK(t.fragile == expected(Count::kFragile));
  // The task stores layer 0 only.
  CHECK(summarize_heads(profile, profile.tasks()[0]).size() == 2);
}

TEST_CASE("summaries do not depend on the size of blocks: many heads, many examples") {
  TempDir folder;
  ScoreTable table;
  table.tasks = {"t"};
  table.heads = 1500;  // about 350 rows a block
  std::mt19937_64 generator(4);
  ScoreCube cube(1);
  double sum = 0;
  for (int e = 0; e < 800; ++e) {
    cube[0].emplace_back();
    double of_example = 0;
    for (int h = 0; h < table.heads; ++h) {
      cube[0].back().push_back(unit(generator));
      of_example += cube[0].back().back();
    }
    sum += of_example / table.heads;
  }
  table.scores = {{Score::kNormShare, cube}};
  make_profile(folder / "p.h5", table);
  const ProfileReader profile(folder / "p.h5");
  CHECK(score_of(summarize_tasks(profile)[0], Score::kNormShare) ==
        doctest::Approx(sum / 800).epsilon(1e-13));
  double head = 0;
  for (int e = 0; e < 800; ++e) head += cube[0][static_cast<std::size_t>(e)][1234];
  CHECK(score_of(summarize_heads(profile, profile.tasks()[0])[1234], Score::kNormShare) ==
        doctest::Approx(head / 800).epsilon(1e-13));
}

TEST_SUITE_END();
