#include "profiler/rank_correlation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "profiler/index_source.hpp"
#include "profiler/random.hpp"
#include "support/compare.hpp"
#include "support/csv_table.hpp"

using namespace rope;
using namespace rope::test;

namespace {

using Values = std::vector<double>;

/// Average rank by counting.
Values slow_ranks(const Values& values) {
  Values ranks;
  for (const double v : values) {
    double above = 0, equal = 0;
    for (const double w : values) {
      above += w > v;
      equal += w == v;
    }
    ranks.push_back(above + (equal + 1) / 2);
  }
  return ranks;
}

double slow_rho(const Values& a, const Values& b) {
  const Values x = slow_ranks(a), y = slow_ranks(b);
  const auto mean = [](const Values& v) {
    double sum = 0;
    for (const double e : v) sum += e;
    return sum / static_cast<double>(v.size());
  };
  const double mx = mean(x), my = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xy / std::sqrt(xx * yy);
}

/// By every order of b, with a margin for the rounding of rho.
double slow_p(const Values& a, const Values& b) {
  std::vector<std::size_t> order(b.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const double observed = std::abs(slow_rho(a, b));
  double extreme = 0, all = 0;
  do {
    Values permuted;
    for (const std::size_t i : order) permuted.push_back(b[i]);
    extreme += std::abs(slow_rho(a, permuted)) >= observed - 1e-9;
    ++all;
  } while (std::next_permutation(order.begin(), order.end()));
  return extreme / all;
}

CorrelationOptions options_of(std::int64_t resamples, int threads = 1, std::uint64_t seed = 1) {
  CorrelationOptions options;
  options.resamples = resamples;
  options.threads = threads;
  options.seed = seed;
  return options;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("rank correlation: the paper's two models") {
  const CsvTable table = read_table(ROPE_SOURCE_DIR "/tests/data/reference/paper_ranks.csv");
  std::map<std::string, Values> of_model;
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    of_model[table.text(r, "model")].push_back(table.number(r, "w_s"));
  REQUIRE(of_model.size() == 2);
  const auto result =
      rank_correlation(of_model["Qwen3-8B"], of_model["Llama-3.1-8B-Instruct"], options_of(4000));
  CHECK_COMPARISON(
      compare_absolute("rho of the paper", Values{result.rho}, Values{0.6579834722700924}, 1e-15));
  CHECK_FALSE(result.exact);
  CHECK(result.permutations == 100'000);
  CHECK(result.p_value == 1 / 100'001.0);  // none of the drawn orders comes near
  // Fisher's interval, with the larger variance of ranks: 0.44 to 0.80.
  CHECK_COMPARISON(compare_absolute("interval", Values{result.low, result.high}, Values{0.44, 0.80}, 0.06));
}

TEST_CASE("rank correlation: exact p and rho against every order, ties among them") {
  std::mt19937_64 generator(9);
  Values rho, slow, p, slow_ps;
  for (int round = 0; round < 60; ++round) {
    const std::size_t n = 3 + generator() % 5, levels = 2 + generator() % 6;
    Values a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<double>(generator() % levels) / 7;
      b[i] = static_cast<double>(generator() % levels) / 7;
    }
    const auto result = rank_correlation(a, b, options_of(0));
    const bool constant = std::count(a.begin(), a.end(), a[0]) == static_cast<std::ptrdiff_t>(n) ||
                          std::count(b.begin(), b.end(), b[0]) == static_cast<std::ptrdiff_t>(n);
    CHECK(std::isnan(result.rho) == constant);
    CHECK(std::isnan(result.low));
    if (constant) {
      CHECK(std::isnan(result.p_value));
      continue;
    }
    CHECK(result.exact);
    rho.push_back(result.rho);
    slow.push_back(slow_rho(a, b));
    p.push_back(result.p_value);
    slow_ps.push_back(slow_p(a, b));
  }
  CHECK(rho.size() > 30);
  CHECK_COMPARISON(compare_absolute("rho", rho, slow, 1e-14));
  CHECK_COMPARISON(compare_absolute("p", p, slow_ps, 1e-14));
}

TEST_CASE("rank correlation: where exact and drawn p meet") {
  // Nine values: all 9! orders. Ten: drawn, within four standard errors of the exact p of 10! orders.
  Values a, b;
  for (int i = 0; i < 9; ++i) {
    a.push_back(i);
    b.push_back((i * 4) % 9);
  }
  const auto nine = rank_correlation(a, b, options_of(0));
  CHECK(nine.exact);
  CHECK(nine.permutations == 362'880);
  a.push_back(9);
  b.push_back(9);
  const auto ten = rank_correlation(a, b, options_of(0));
  CHECK_FALSE(ten.exact);
  const double rho = slow_rho(a, b);
  // Of 10! orders by a walk over S = sum of products, one value at a time.
  std::map<std::pair<int, int>, double> ways{{{0, 0}, 1}};  // used values, sum of i * v
  for (int i = 0; i < 10; ++i) {
    std::map<std::pair<int, int>, double> next;
    for (const auto& [key, count] : ways)
      for (int v = 0; v < 10; ++v)
        if (!(key.first >> v & 1)) next[{key.first | 1 << v, key.second + i * v}] += count;
    ways = next;
  }
  double extreme = 0, all = 0;
  for (const auto& [key, count] : ways) {
    const double own = (key.second - 202.5) / 82.5;
    extreme += std::abs(own) >= std::abs(rho) - 1e-9 ? count : 0;
    all += count;
  }
  CHECK(all == 3'628'800);
  const double exact = extreme / all, error = std::sqrt(exact * (1 - exact) / 100'000);
  CHECK_COMPARISON(compare_absolute("drawn p", Values{ten.p_value}, Values{exact}, 4 * error));
}

TEST_CASE("rank correlation: nothing for fewer than three values or a constant side") {
  for (const auto& [a, b] : std::vector<std::pair<Values, Values>>{
           {{}, {}}, {{1}, {2}}, {{1, 2}, {1, 2}}, {{1, 1, 1}, {1, 2, 3}}, {{1, 2, 3}, {5, 5, 5}}}) {
    const auto result = rank_correlation(a, b, options_of(100));
    for (const double value : {result.rho, result.low, result.high, result.p_value}) CHECK(std::isnan(value));
    CHECK(result.permutations == 0);
  }
  const auto three = rank_correlation(Values{1, 2, 3}, Values{3, 2, 1}, options_of(500));
  CHECK(three.rho == -1);
  CHECK(three.p_value == 2 / 6.0);
  CHECK(three.low == -1);
  CHECK(three.high == -1);
}

TEST_CASE("rank correlation: bootstrap and drawn p are the same for any threads and follow the seed") {
  Random random(3);
  Values a, b;
  for (int i = 0; i < 40; ++i) {
    a.push_back(random.normal());
    b.push_back(0.3 * a.back() + random.normal());
  }
  const auto one = rank_correlation(a, b, options_of(2500, 1));
  const auto four = rank_correlation(a, b, options_of(2500, 4));
  CHECK(one.low == four.low);
  CHECK(one.high == four.high);
  CHECK(one.p_value == four.p_value);
  const auto other = rank_correlation(a, b, options_of(2500, 1, 2));
  CHECK(one.low != other.low);
  CHECK(one.p_value != other.p_value);
  CHECK(one.rho == other.rho);
}

TEST_CASE("index source: below(n) is uniform, next() is below(its own n)") {
  detail::IndexSource fixed(5, 7), free(5, 1000);
  for (int i = 0; i < 1000; ++i) CHECK(fixed.next() == free.below(7));
  std::vector<int> counts(5);
  for (int i = 0; i < 50'000; ++i) ++counts[free.below(5)];
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 400);  // 4 standard deviations
}

TEST_SUITE_END();
