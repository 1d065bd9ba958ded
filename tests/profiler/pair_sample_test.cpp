// The bounded sample behind an audit's quantiles: exact while it can be, then within its stated error.

#include "profiler/pair_sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "profiler/audit_statistics.hpp"
#include "profiler/random.hpp"

using namespace rope;

namespace {

std::vector<double> kept(const PairSample& sample) {
  std::vector<double> values;
  sample.for_each([&](const AuditRow& row) { values.push_back(row.response); });
  return values;
}

PairSample sample_of(const std::vector<double>& values, std::size_t capacity) {
  PairSample sample(capacity);
  for (const double x : values) sample.add({0, x, 0, 0, 0, 0});
  return sample;
}

/// Largest difference between the shares of two sets of values below any value.
double rank_distance(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const auto share = [](const std::vector<double>& v, double x, bool or_equal) {
    const auto end =
        or_equal ? std::upper_bound(v.begin(), v.end(), x) : std::lower_bound(v.begin(), v.end(), x);
    return static_cast<double>(end - v.begin()) / static_cast<double>(v.size());
  };
  double worst = 0;
  for (const double x : b)
    for (const bool or_equal : {false, true})
      worst = std::max(worst, std::abs(share(a, x, or_equal) - share(b, x, or_equal)));
  return worst;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("pair sample: everything, in order, up to the capacity") {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i);
  const PairSample sample = sample_of(values, 1000);
  CHECK(sample.exact());
  CHECK(sample.rank_error() == 0);
  CHECK(kept(sample) == values);
  values.push_back(1000);
  const PairSample more = sample_of(values, 1000);
  CHECK_FALSE(more.exact());
  CHECK(more.seen() == 1001);
  CHECK(more.size() <= 1000);
  CHECK(more.rank_error() > 0);
  CHECK(PairSample().exact());
  CHECK_THROWS_AS(PairSample(0), std::logic_error);
}

TEST_CASE("pair sample: the stated error holds for any order and distribution") {
  // The figure of the header: probability 1e-9.
  CHECK(PairSample::rank_error(5'000'000) == doctest::Approx(1.46e-3).epsilon(0.01));
  CHECK(2 * std::exp(-2 * 1e4 * std::pow(PairSample::rank_error(10'000), 2)) == doctest::Approx(1e-9));
  CHECK(PairSample::rank_error(0) == 1);
  const std::size_t n = 300'000, capacity = 20'000;
  Random random(5);
  const std::pair<const char*, std::function<double(std::size_t)>> streams[] = {
      {"uniform", [&](std::size_t) { return random.uniform(); }},
      {"rising", [&](std::size_t i) { return static_cast<double>(i); }},
      {"falling", [&](std::size_t i) { return -static_cast<double>(i); }},
      {"few values", [&](std::size_t) { return std::floor(4 * random.uniform()); }},
      {"rare values", [&](std::size_t i) { return i % 10'000 == 0 ? 1e9 : 0.0; }},
      {"heavy tail", [&](std::size_t) { return std::exp(5 * random.normal()); }},
      {"heads one after the other",
       [&](std::size_t i) { return static_cast<double>(i / 1024 % 7) + random.uniform(); }},
      {"alternating", [&](std::size_t i) { return static_cast<double>(i % 2); }},
      {"periodic", [&](std::size_t i) { return static_cast<double>(i % 64); }},
      {"a late change", [&](std::size_t i) { return i > 9 * n / 10 ? 5.0 : random.uniform(); }}};
  double worst = 0;
  for (const auto& [name, value] : streams) {
    CAPTURE(std::string(name));
    std::vector<double> values;
    for (std::size_t i = 0; i < n; ++i) values.push_back(value(i));
    const PairSample sample = sample_of(values, capacity);
    CHECK(sample.seen() == static_cast<std::int64_t>(n));
    CHECK(sample.size() <= capacity);
    CHECK(sample.size() >= 9 * capacity / 20);
    const double distance = rank_distance(values, kept(sample));
    CHECK(distance <= sample.rank_error());
    worst = std::max(worst, distance / sample.rank_error());
    // A median of the sample lies between the quantiles that the error names.
    std::vector<double> of_sample = kept(sample), all = values;
    const double median = quantile(of_sample, 0.5), e = sample.rank_error();
    CHECK(median >= quantile(all, 0.5 - e));
    CHECK(median <= quantile(all, 0.5 + e));
  }
  MESSAGE("largest share of the stated error: " << worst);
  CHECK(worst > 0.1);  // it is a sample, not the whole
}

TEST_CASE("pair sample: what is kept depends on the numbers of the rows alone") {
  std::vector<double> number, other;
  for (int i = 0; i < 50'000; ++i) {
    number.push_back(i);
    other.push_back(-i);
  }
  const std::vector<double> first = kept(sample_of(number, 3000)), again = kept(sample_of(number, 3000)),
                            values = kept(sample_of(other, 3000));
  CHECK(first == again);
  REQUIRE(values.size() == first.size());
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(values[i] == -first[i]);
  CHECK(std::is_sorted(first.begin(), first.end()));  // the order of the stream
  // A larger sample holds the smaller one: both are {hash below a limit}.
  const std::vector<double> larger = kept(sample_of(number, 12'000));
  CHECK(larger.size() > first.size());
  CHECK(std::includes(larger.begin(), larger.end(), first.begin(), first.end()));
}

TEST_SUITE_END();
