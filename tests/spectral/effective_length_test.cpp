#include "spectral/effective_length.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "reference/lengths.hpp"
#include "spectral/logit_rows.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using spectral::LengthOrders;
using spectral::WeightSums;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<double> kBeta = {0, 0.25, 0.9, 1, 1.0001, 1.5, 2, 3, 17, kInfinity};

struct Row {
  std::string name;
  std::vector<double> logits;
};

// Random and adversarial rows.
std::vector<Row> rows() {
  std::mt19937_64 random(11);
  std::vector<Row> rows;
  for (const std::size_t n : {1, 2, 7, 8, 9, 31, 511, 512, 513, 1500})
    for (const double size : {0.1, 3.0, 60.0}) {
      Row row{"random, L = " + std::to_string(n) + ", size " + std::to_string(size), {}};
      for (std::size_t i = 0; i < n; ++i) row.logits.push_back(size * uniform(random));
      rows.push_back(row);
    }
  rows.push_back({"equal", std::vector<double>(777, -3.25)});
  rows.push_back({"equal and huge", std::vector<double>(600, 1e4)});
  Row row{"one dominant", std::vector<double>(900, 0.0)};
  row.logits[700] = 50;
  rows.push_back(row);
  row.name = "one dominant and huge, first";
  row.logits[0] = 1e4;
  rows.push_back(row);
  row = {"nearly minus infinity", std::vector<double>(700, -1e300)};
  row.logits[3] = 1.0;
  row.logits[650] = 0.5;
  rows.push_back(row);
  row = {"ties at the top", std::vector<double>(300, -2.0)};
  row.logits[5] = row.logits[200] = row.logits[299] = 4.0;
  rows.push_back(row);
  row = {"rising, so that every block has a new largest", {}};
  for (int i = 0; i < 2000; ++i) row.logits.push_back(0.7 * i);
  rows.push_back(row);
  row.name = "falling";
  std::reverse(row.logits.begin(), row.logits.end());
  rows.push_back(row);
  rows.push_back({"a single huge one", {-1e300}});
  return rows;
}

WeightSums sums_of(const std::vector<double>& logits, const LengthOrders& orders) {
  WeightSums sums;
  add_logits(sums, logits, orders);
  return sums;
}

std::vector<long double> wide(const std::vector<double>& x) { return {x.begin(), x.end()}; }

TEST_SUITE_BEGIN("spectral");

TEST_CASE("effective length: every order equals the definition in long double") {
  const LengthOrders orders(kBeta);
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    const WeightSums sums = sums_of(row.logits, orders);
    std::vector<double> found, expected;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      found.push_back(log_effective_length(sums, orders, i));
      expected.push_back(static_cast<double>(reference::log_effective_length(wide(row.logits), kBeta[i])));
    }
    CHECK_COMPARISON(compare_absolute(row.name, found, expected, 2e-11));  // 1.0001 loses four digits
    CHECK(sums.count == static_cast<std::int64_t>(row.logits.size()));
    CHECK(log_effective_length_1(sums) == found[3]);
    CHECK(log_effective_length_2(sums) == found[6]);
    CHECK(log_effective_length_inf(sums) == found[9]);
  }
}

TEST_CASE("effective length: known values") {
  const LengthOrders orders(kBeta);
  const auto lengths = [&](const std::vector<double>& logits) {
    const WeightSums sums = sums_of(logits, orders);
    std::vector<double> values;
    for (std::size_t i = 0; i < orders.size(); ++i)
      values.push_back(std::exp(log_effective_length(sums, orders, i)));
    return values;
  };
  for (const double length : lengths(std::vector<double>(1000, 7.0)))
    CHECK(length == doctest::Approx(1000).epsilon(1e-12));
  for (const double length : lengths({42.0})) CHECK(length == 1.0);
  // Weights 1/2, 1/4, 1/4.
  const std::vector<double> three = lengths({std::log(2.0), 0.0, 0.0});
  CHECK(three[0] == doctest::Approx(3).epsilon(1e-14));
  CHECK(three[3] == doctest::Approx(std::pow(2.0, 1.5)).epsilon(1e-14));
  CHECK(three[6] == doctest::Approx(8.0 / 3).epsilon(1e-14));
  CHECK(three[9] == doctest::Approx(2).epsilon(1e-14));
}

TEST_CASE("effective length: 1 <= E <= L, falling in beta and in the logit scale") {
  const LengthOrders orders(kBeta);
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    double before_scale[16];
    std::fill_n(before_scale, 16, kInfinity);
    for (const double scale : {1e-4, 0.01, 0.3, 0.7, 1.0, 1.1, 2.0, 40.0}) {
      std::vector<double> logits = row.logits;
      for (double& x : logits) x *= scale;
      const WeightSums sums = sums_of(logits, orders);
      const double most = std::log(static_cast<double>(sums.count));
      double before = most;
      for (std::size_t i = 0; i < orders.size(); ++i) {
        const double length = log_effective_length(sums, orders, i);
        CHECK(length >= 0);
        CHECK(length <= before + 1e-11);
        CHECK(length <= before_scale[i] + 1e-11);
        before = std::min(before, length);
        before_scale[i] = std::min(before_scale[i], length);
      }
      CHECK(log_length_slope(sums) <= 0);
    }
  }
}

TEST_CASE("effective length: an order close to 1 passes into the entropy without a step") {
  std::mt19937_64 random(3);
  std::vector<double> logits;
  for (int i = 0; i < 600; ++i) logits.push_back(8 * uniform(random));
  double before = kInfinity;
  for (const double away : {-1e-3, -1e-5, -1e-7, -3e-8, -1e-9, 0.0, 1e-9, 3e-8, 1e-7, 1e-5, 1e-3}) {
    const LengthOrders orders({1 + away});
    const double found = log_effective_length(sums_of(logits, orders), orders, 0);
    const LengthOrders one;
    CHECK(std::abs(found - log_effective_length_1(sums_of(logits, one))) < 20 * std::abs(away) + 1e-6);
    CHECK(found < before + 1e-6);
    before = found;
  }
}

TEST_CASE("effective length: sums of parts in any order are the sums of the whole") {
  const LengthOrders orders(kBeta);
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    const WeightSums whole = sums_of(row.logits, orders);
    for (const std::size_t parts : {2, 3, 5}) {
      std::vector<WeightSums> part(parts);
      for (std::size_t i = 0; i < row.logits.size(); ++i) part[i % parts].add(row.logits[i], orders);
      WeightSums merged;
      for (std::size_t p = parts; p-- > 0;) merged.add(part[p], orders);
      merged.add(WeightSums{}, orders);
      CHECK(merged.count == whole.count);
      CHECK(merged.largest == whole.largest);
      std::vector<double> a = {merged.mean}, b = {whole.mean};
      if (std::abs(whole.mean) < 1e200) {
        a.push_back(merged.variance() + 1);
        b.push_back(whole.variance() + 1);
        a.push_back(log_length_slope(merged) + 1);
        b.push_back(log_length_slope(whole) + 1);
      }
      for (std::size_t i = 0; i < orders.size(); ++i) {
        a.push_back(log_effective_length(merged, orders, i) + 1);
        b.push_back(log_effective_length(whole, orders, i) + 1);
      }
      CHECK_COMPARISON(compare_relative(row.name, a, b, 1e-10));
    }
  }
}

TEST_CASE("effective length: moments of the logits and the slope in ln lambda") {
  const LengthOrders orders;
  std::mt19937_64 random(5);
  std::vector<double> logits;
  for (int i = 0; i < 1300; ++i) logits.push_back(1e3 + 5 * uniform(random));
  const WeightSums sums = sums_of(logits, orders);
  long double mean = 0, variance = 0;
  for (const double x : logits) mean += x / 1300.0L;
  for (const double x : logits) variance += (x - mean) * (x - mean) / 1300.0L;
  CHECK(std::abs(sums.mean - static_cast<double>(mean)) < 1e-10);
  CHECK(std::abs(sums.variance() - static_cast<double>(variance)) < 1e-11);
  const auto at = [&](long double scale) {
    std::vector<long double> x = wide(logits);
    for (long double& v : x) v *= scale;
    return reference::log_effective_length(x, 2);
  };
  const long double step = 1e-5L, slope = (at(1 + step) - at(1 - step)) / (2 * step);
  CHECK(std::abs(log_length_slope(sums) - static_cast<double>(slope)) < 1e-7);
}

TEST_CASE("effective length: weights with and without a sink logit") {
  const LengthOrders orders;
  for (const Row& row : rows()) {
    if (row.name == "a single huge one") continue;  // its difference to the sink is lost
    CAPTURE(row.name);
    const WeightSums sums = sums_of(row.logits, orders);
    for (const double sink : {-kInfinity, -5.0, 3.0, 2e4}) {
      const auto expected = reference::softmax(wide(row.logits), sink);
      double total = 0;
      const double log_total = sums.log_total(sink);
      for (std::size_t i = 0; i < row.logits.size(); ++i) {
        CHECK(std::abs(std::exp(row.logits[i] - log_total) - static_cast<double>(expected[i])) <
              1e-15 * (1 + std::abs(log_total)));
        const double weight = sums.weight(row.logits[i], sink);
        CHECK(std::abs(weight - static_cast<double>(expected[i])) < 1e-13);
        total += weight;
      }
      CHECK(std::abs(sums.weight_of(sums, sink) - total) < 1e-11);
      if (std::isinf(sink)) CHECK(std::abs(total - 1) < 1e-11);
    }
    CHECK(sums.weight_of(WeightSums{}) == 0);
  }
}

TEST_CASE("effective length: what is not finite is not a length") {
  const LengthOrders orders(kBeta);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity})
    for (const std::size_t place : {0, 3, 8, 15, 16, 600}) {
      std::vector<double> logits(601, 1.0);
      logits[place] = bad;
      const WeightSums sums = sums_of(logits, orders);
      CHECK_FALSE(sums.finite);
      for (std::size_t i = 0; i < orders.size(); ++i)
        CHECK(std::isnan(log_effective_length(sums, orders, i)));
      CHECK(std::isnan(sums.weight(1.0)));
      CHECK(std::isnan(log_length_slope(sums)));
      WeightSums one;
      one.add(bad, orders);
      CHECK_FALSE(one.finite);
    }
  CHECK(std::isnan(log_effective_length_2(WeightSums{})));
}

TEST_CASE("effective length: orders that are refused, and their names") {
  for (const std::vector<double>& bad :
       {std::vector<double>{-0.1}, {std::nan("")}, {2, 1, 2}, {3, 4, 5, 6, 7, 8, 9, 10, 11}})
    CHECK_THROWS_AS(LengthOrders{bad}, std::invalid_argument);
  CHECK(LengthOrders({0, 1, 2, kInfinity, 3, 4, 5, 6, 7, 8, 9, 10}).powers().size() == 8);
  CHECK(spectral::order_name(kInfinity) == "inf");
  CHECK(spectral::order_name(2) == "2");
  CHECK(spectral::order_name(1.5) == "1.5");
}

TEST_CASE("logit rows: products, mirrored sums and softcap") {
  std::mt19937_64 random(9);
  for (const std::size_t depth : {1, 2, 63, 130})
    for (const std::size_t columns : {1, 31, 32, 33, 100}) {
      std::vector<double> left(depth * 8), right(depth * 110), to(4 * 128, 0.5), twice(4 * 128);
      for (double& x : left) x = uniform(random);
      for (double& x : right) x = uniform(random);
      spectral::ColumnPanels panels;
      panels.pack(right.data(), 110, depth, columns);
      spectral::multiply_rows(left.data() + 2, 8, panels, columns, false, twice.data(), 128);
      spectral::multiply_rows(left.data() + 2, 8, panels, columns, true, to.data(), 128);
      std::vector<double> found, added, expected;
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < columns; ++j) {
          long double sum = 0;
          for (std::size_t r = 0; r < depth; ++r)
            sum += static_cast<long double>(left[r * 8 + 2 + i]) * right[r * 110 + j];
          expected.push_back(static_cast<double>(sum));
          found.push_back(twice[i * 128 + j]);
          added.push_back(to[i * 128 + j] - 0.5);
        }
      const auto bound = 1e-15 * static_cast<double>(depth + 4);
      CHECK_COMPARISON(compare_absolute("products", found, expected, bound));
      CHECK_COMPARISON(compare_absolute("added products", added, expected, bound));
    }
  for (const std::size_t count : {1, 5, 8, 37}) {
    std::vector<double> even(count), odd(count), up(count), down(count), capped, expected;
    for (std::size_t i = 0; i < count; ++i) {
      even[i] = uniform(random);
      odd[i] = 40 * uniform(random);
    }
    spectral::combine_mirrored(0.25, even.data(), odd.data(), count, up.data(), down.data());
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(std::abs(up[i] - (0.25 + even[i] + odd[i])) < 1e-14);
      CHECK(std::abs(down[i] - (0.25 + even[i] - odd[i])) < 1e-14);
      expected.push_back(5 * std::tanh(up[i] / 5));
    }
    capped = up;
    spectral::cap_logits(capped, 5.0);
    CHECK_COMPARISON(compare_absolute("softcap", capped, expected, 1e-14));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
