#include "interventions/preview_bootstrap.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "profiler/random.hpp"

using namespace rope;
using detail::paired_intervals;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Columns = std::vector<std::vector<double>>;

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("preview bootstrap: exact intervals of two examples") {
  // Means of two draws: a, (a + b) / 2, b with 1/4, 1/2, 1/4: 2.5 % and 97.5 % are a and b.
  const auto intervals = paired_intervals({{1, 3}, {5, 5}, {-2, -7}}, "task", 2000, 1);
  CHECK(intervals[0].low == 1);
  CHECK(intervals[0].high == 3);
  CHECK(intervals[1].low == 5);
  CHECK(intervals[1].high == 5);
  CHECK(intervals[2].low == -7);
  CHECK(intervals[2].high == -2);
}

TEST_CASE("preview bootstrap: the interval of many examples is that of the normal law") {
  Random random(3);
  std::vector<double> column;
  double sum = 0, squares = 0;
  for (int i = 0; i < 400; ++i) {
    column.push_back(random.normal());
    sum += column.back();
    squares += column.back() * column.back();
  }
  const double mean = sum / 400, error = std::sqrt((squares / 400 - mean * mean) / 400);
  const auto interval = paired_intervals({column}, "task", 20000, 5)[0];
  CHECK(interval.low == doctest::Approx(mean - 1.96 * error).epsilon(0.03));
  CHECK(interval.high == doctest::Approx(mean + 1.96 * error).epsilon(0.03));
}

TEST_CASE("preview bootstrap: follows from seed and name, the same for every column and beside any others") {
  const std::vector<double> one{0.3, 1.7, -0.2, 4, 2.2}, other{9, 1, 1, 3, 0.5};
  const auto alone = paired_intervals({one}, "task", 500, 7)[0];
  const auto beside = paired_intervals({other, one, one}, "task", 500, 7);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    CHECK(beside[i].low == alone.low);
    CHECK(beside[i].high == alone.high);
  }
  const auto differs = [&](const std::string& name, std::uint64_t seed) {
    const auto found = paired_intervals({one}, name, 500, seed)[0];
    return found.low != alone.low || found.high != alone.high;
  };
  CHECK(differs("task", 8));
  CHECK(differs("another", 7));
  CHECK(!differs("task", 7));
}

TEST_CASE("preview bootstrap: columns in blocks draw alike") {
  // 1e6 resamples leave room for 4 columns at a time.
  Columns columns(6, {1, 2, 4});
  const auto intervals = paired_intervals(columns, "task", 1'000'000, 1);
  for (const auto& interval : intervals) {
    CHECK(interval.low == intervals[0].low);
    CHECK(interval.high == intervals[0].high);
  }
}

TEST_CASE("preview bootstrap: missing values, single examples, no resamples") {
  const auto intervals =
      paired_intervals({{1, kNaN, 3}, {kNaN, kNaN, 2}, {kNaN, kNaN, kNaN}, {0, 0, 0}}, "t", 400, 1);
  CHECK(intervals[0].low == 1);
  CHECK(intervals[0].high == 3);
  for (const std::size_t c : {std::size_t{1}, std::size_t{2}}) {
    CHECK(std::isnan(intervals[c].low));
    CHECK(std::isnan(intervals[c].high));
  }
  CHECK(intervals[3].low == 0);
  CHECK(std::isnan(paired_intervals({{1}}, "t", 400, 1)[0].low));
  CHECK(std::isnan(paired_intervals({{1, 2}}, "t", 0, 1)[0].high));
  CHECK(paired_intervals({}, "t", 10, 1).empty());
  CHECK(std::isnan(paired_intervals({{}}, "t", 10, 1)[0].low));
}

TEST_SUITE_END();
