// Everything measured per pair and per margin, on every SIMD target, against plain long-double sums.

#include "spectral/pair_runs.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;
using Complex = std::complex<long double>;
using Row = std::vector<double>;

constexpr double kLargest = 1e290;

// Queries and keys of one head as rows, and a grid with still pairs and a tail.
struct Head {
  LaneMap map;
  int dim = 0;
  std::vector<Row> queries, keys;
  std::vector<long long> query_positions, key_positions;
};

std::vector<Row> random_rows(std::size_t count, int dim, std::mt19937_64& random) {
  std::vector<Row> rows(count, Row(static_cast<std::size_t>(dim)));
  for (Row& row : rows)
    for (double& x : row) x = uniform(random);
  return rows;
}

Head make_head(std::size_t n_queries, std::size_t n_keys, std::uint64_t seed, bool with_tail = true,
               PairLayout layout = PairLayout::kHalf) {
  Head head;
  auto omega = geometric_grid(1e4, 13);
  if (with_tail) omega[4] = 0.0;
  head.dim = with_tail ? 31 : 26;
  head.map = make_lane_map(omega, layout, head.dim);
  std::mt19937_64 random(seed);
  head.queries = random_rows(n_queries, head.dim, random);
  head.keys = random_rows(n_keys, head.dim, random);
  for (std::size_t i = 0; i < n_queries; ++i)
    head.query_positions.push_back(131071 - 3 * static_cast<long long>(i));
  for (std::size_t j = 0; j < n_keys; ++j) head.key_positions.push_back(17 * static_cast<long long>(j) + 5);
  return head;
}

VectorColumns columns_of(const Head& head, const std::vector<Row>& rows) {
  VectorColumns columns;
  columns.shape(head.map, rows.size());
  for (std::size_t t = 0; t < rows.size(); ++t) columns.put(rows[t].data(), 1, head.dim, head.map, t);
  return columns;
}

Complex coefficient(const LaneMap& map, const Row& q, const Row& k, std::size_t n) {
  return Complex(q[map.a[n]], q[map.b[n]]) * std::conj(Complex(k[map.a[n]], k[map.b[n]]));
}

long double constant_of(const LaneMap& map, const Row& q, const Row& k) {
  long double sum = 0;
  for (const auto* lanes : {&map.still, &map.tail})
    for (const int lane : *lanes) sum += static_cast<long double>(q[lane]) * k[lane];
  return sum;
}

/// All measures of all queries x all keys of a head, runs of `at_once` queries.
struct Measured {
  CoefficientBatch batch;
  std::vector<double> norm, subset_norm, mass, usage, usage_norm;
  std::size_t undefined = 0, non_finite = 0;
};

std::vector<double> subset_of(const LaneMap& map) {
  std::vector<double> subset(map.omega.size());
  for (std::size_t n = 0; n < subset.size(); ++n) subset[n] = n % 3 == 0 ? 1.0 : 0.0;
  return subset;
}

Measured measure(const Head& head, std::size_t first_lane = 0, std::size_t at_once = 1) {
  const std::size_t h = head.map.omega.size(), keys = head.keys.size(), lanes = head.queries.size() * keys;
  const VectorColumns query = columns_of(head, head.queries), key = columns_of(head, head.keys);
  VectorColumns turned_query = query, turned_key = key;
  turn_columns(turned_query, make_phase_columns(head.map.omega, head.query_positions), 0, 1);
  turn_columns(turned_key, make_phase_columns(head.map.omega, head.key_positions), 0, 1);
  Measured m;
  m.batch.reset(h, first_lane + lanes + 3);
  std::fill(m.batch.re.begin(), m.batch.re.end(), 7.0);
  m.norm.resize(lanes);
  m.subset_norm.resize(lanes);
  m.mass.resize(lanes);
  m.usage.resize(h);
  m.usage_norm.resize(h);
  const auto subset = subset_of(head.map);
  UsageSums usage;
  usage.clear(h);
  ColumnModuli query_moduli, key_moduli;
  measure_columns(query, query_moduli);
  measure_columns(key, key_moduli);
  PairMeasures measures{
      &query_moduli, &key_moduli, subset.data(),         kLargest, m.norm.data(), m.subset_norm.data(),
      &turned_query, &turned_key, head.map.omega.data(), &usage,   m.mass.data()};
  for (std::size_t i = 0; i < head.queries.size(); i += at_once) {
    const std::size_t queries = std::min(at_once, head.queries.size() - i);
    measure_pairs({&query, &key, i, 0, keys, first_lane + i * keys, i * keys, queries}, measures, m.batch);
  }
  usage.fold(m.usage.data(), m.usage_norm.data());
  m.undefined = measures.undefined;
  m.non_finite = measures.non_finite;
  return m;
}

void check_measures(const Head& head, const Measured& m, std::size_t first_lane) {
  const std::size_t h = head.map.omega.size();
  const auto subset = subset_of(head.map);
  std::vector<double> norm, subset_norm, mass, usage(h), usage_norm(h), z, z_expected, bound;
  std::size_t lane = 0;
  for (std::size_t i = 0; i < head.queries.size(); ++i) {
    for (std::size_t j = 0; j < head.keys.size(); ++j, ++lane) {
      long double all = 0, part = 0, sum = 0, weighted = 0;
      const auto m_distance = static_cast<long double>(head.query_positions[i] - head.key_positions[j]);
      for (std::size_t n = 0; n < h; ++n) {
        const Complex c = coefficient(head.map, head.queries[i], head.keys[j], n);
        const long double angle = m_distance * head.map.omega[n];
        all += std::norm(c);
        part += subset[n] * std::norm(c);
        sum += std::abs(c);
        weighted += std::abs(c) * head.map.omega[n];
        usage[n] += static_cast<double>(std::abs((c * Complex(std::cos(angle), std::sin(angle))).real()));
        usage_norm[n] += static_cast<double>(std::abs(c));
        z.push_back(m.batch.re[n * m.batch.stride + first_lane + lane]);
        z.push_back(m.batch.im[n * m.batch.stride + first_lane + lane]);
        z_expected.push_back(static_cast<double>(c.real()));
        z_expected.push_back(static_cast<double>(c.imag()));
      }
      z.push_back(m.batch.constant[first_lane + lane]);
      z_expected.push_back(static_cast<double>(constant_of(head.map, head.queries[i], head.keys[j])));
      norm.push_back(static_cast<double>(std::sqrt(all)));
      subset_norm.push_back(static_cast<double>(std::sqrt(part)));
      mass.push_back(static_cast<double>(weighted / sum));
    }
  }
  for (const Comparison& comparison :
       {compare_absolute("z and c_0", z, z_expected, 2e-15), compare_relative("U", m.norm, norm, 1e-15),
        compare_relative("U_J", m.subset_norm, subset_norm, 1e-15),
        compare_relative("frequency mass", m.mass, mass, 3e-15),
        compare_relative("usage", m.usage, usage, 3e-14),
        compare_relative("usage without phase", m.usage_norm, usage_norm, 3e-15)})
    CHECK_MESSAGE(comparison.ok(), comparison.text());
}

/// Runs `work` on every SIMD target of the machine.
template <class Work>
void on_every_target(Work work) {
  for (const std::string& target : simd_available()) {
    select_simd(target);
    CAPTURE(target);
    work();
  }
  select_simd("auto");
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("pair runs: coefficients, norms, usage and mass for every count of keys, on every SIMD target") {
  on_every_target([] {
    for (const std::size_t keys : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 67}) {
      CAPTURE(keys);
      const Head head = make_head(3, keys, keys);
      const Measured m = measure(head, 5);
      CHECK(m.undefined == 0);
      CHECK(m.non_finite == 0);
      check_measures(head, m, 5);
      for (std::size_t n = 0; n < m.batch.n_freq; ++n) {  // lanes of others stay as they were
        const double* row = m.batch.re.data() + n * m.batch.stride;
        for (std::size_t lane = 0; lane < 5; ++lane) CHECK(row[lane] == 7.0);
        for (std::size_t lane = 5 + 3 * keys; lane < m.batch.stride; ++lane) CHECK(row[lane] == 7.0);
      }
    }
    const Head woven = make_head(2, 11, 77, true, PairLayout::kInterleaved);
    check_measures(woven, measure(woven), 0);
    const Head whole = make_head(2, 11, 78, false);
    check_measures(whole, measure(whole), 0);
  });
}

TEST_CASE("pair runs: a lane's bytes depend on its two vectors alone") {
  on_every_target([] {
    const Head head = make_head(2, 37, 4);
    const Measured together = measure(head);
    for (const std::size_t j : {0, 3, 16, 31, 36}) {
      Head alone = head;
      alone.keys = {head.keys[j]};
      alone.key_positions = {head.key_positions[j]};
      const Measured one = measure(alone, 3);
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(one.norm[i] == together.norm[i * 37 + j]);
        CHECK(one.subset_norm[i] == together.subset_norm[i * 37 + j]);
        CHECK(one.mass[i] == together.mass[i * 37 + j]);
        for (std::size_t n = 0; n < one.batch.n_freq; ++n) {
          CHECK(one.batch.re[n * one.batch.stride + 3 + i] ==
                together.batch.re[n * together.batch.stride + i * 37 + j]);
          CHECK(one.batch.im[n * one.batch.stride + 3 + i] ==
                together.batch.im[n * together.batch.stride + i * 37 + j]);
        }
      }
    }
  });
}

TEST_CASE("pair runs: neighbouring queries measured together give the bytes that they give one by one") {
  on_every_target([] {
    for (const std::size_t keys : {1, 5, 8, 16, 19, 33}) {
      CAPTURE(keys);
      Head head = make_head(7, keys, 40 + keys);
      head.queries[1].assign(head.queries[1].size(), 0.0);
      head.queries[2][0] = std::nan("");
      for (double& x : head.queries[5]) x *= 0x1p-800;  // its products are measured one by one
      const Measured one = measure(head);
      for (const std::size_t at_once : {2, 3, 4}) {
        const Measured some = measure(head, 0, at_once);
        CHECK(some.undefined == one.undefined);
        CHECK(some.non_finite == one.non_finite);
        CHECK(some.norm == one.norm);
        CHECK(some.subset_norm == one.subset_norm);
        CHECK(some.batch.re == one.batch.re);
        CHECK(some.batch.im == one.batch.im);
        CHECK(some.batch.constant == one.batch.constant);
        for (std::size_t p = 0; p < one.norm.size(); ++p)
          if (one.norm[p] != 0) CHECK(some.mass[p] == one.mass[p]);
        CHECK_COMPARISON(compare_relative("usage", some.usage, one.usage, 1e-14));
        CHECK_COMPARISON(compare_relative("usage without phase", some.usage_norm, one.usage_norm, 1e-14));
      }
    }
  });
}

TEST_CASE("pair runs: components far apart, whose squares of a vector alone would be lost") {
  on_every_target([] {
    Head head = make_head(2, 9, 9, false);
    for (Row& q : head.queries) {  // pair 0 is tiny, and the keys have nothing but pair 0
      q[static_cast<std::size_t>(head.map.a[0])] = 0x1p-600;
      q[static_cast<std::size_t>(head.map.b[0])] = 0;
    }
    for (Row& k : head.keys) {
      std::fill(k.begin(), k.end(), 0.0);
      k[static_cast<std::size_t>(head.map.a[0])] = 0x1p300;
    }
    const Measured m = measure(head, 0, 2);
    CHECK(m.undefined + m.non_finite == 0);
    for (const double norm : m.norm) CHECK(norm == 0x1p-300);
    for (const double norm : m.subset_norm) CHECK(norm == 0x1p-300);
    CHECK(m.usage_norm[0] == 18 * 0x1p-300);
  });
}

TEST_CASE("pair runs: lanes that are not valid are counted, cleared and left out of the sums") {
  on_every_target([] {
    const Head head = make_head(2, 20, 6);
    Head broken = head;
    broken.keys[2].assign(broken.keys[2].size(), 0.0);  // U = 0
    broken.keys[5][1] = std::nan("");
    broken.keys[11][0] = HUGE_VAL;
    for (double& x : broken.keys[13]) x *= 1e300;                                // beyond the largest norm
    broken.keys[17][static_cast<std::size_t>(head.map.tail[0])] = std::nan("");  // only c_0 is not finite
    const Measured m = measure(broken);
    CHECK(m.undefined == 2);
    CHECK(m.non_finite == 8);
    Head rest = head;
    rest.keys.clear();
    rest.key_positions.clear();
    for (std::size_t j = 0; j < 20; ++j) {
      const bool left_out = j == 2 || j == 5 || j == 11 || j == 13 || j == 17;
      if (!left_out) {
        rest.keys.push_back(head.keys[j]);
        rest.key_positions.push_back(head.key_positions[j]);
      }
      for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t lane = 20 * i + j;
        CHECK((m.norm[lane] == 0) == left_out);
        if (!left_out) continue;
        CHECK(m.batch.constant[lane] == 0);
        for (std::size_t n = 0; n < m.batch.n_freq; ++n) {
          CHECK(m.batch.re[n * m.batch.stride + lane] == 0);
          CHECK(m.batch.im[n * m.batch.stride + lane] == 0);
        }
      }
    }
    const Measured expected = measure(rest);
    CHECK_COMPARISON(compare_relative("usage", m.usage, expected.usage, 1e-15));
    CHECK_COMPARISON(compare_relative("usage without phase", m.usage_norm, expected.usage_norm, 1e-15));
  });
}

TEST_CASE("pair runs: squares that leave the range of float64 do no harm, and mass does not see the scale") {
  on_every_target([] {
    const Head head = make_head(2, 18, 8, false);
    const Measured plain = measure(head);
    for (const int power : {-300, 300}) {
      Head scaled = head;  // z by 2^(2 power) for some keys among ordinary ones
      for (std::size_t j = 0; j < 18; j += 4)
        for (double& x : scaled.keys[j]) x = std::ldexp(x, 2 * power);
      const Measured m = measure(scaled);
      CHECK(m.undefined + m.non_finite == 0);
      for (std::size_t lane = 0; lane < 36; ++lane) {
        const int shift = lane % 18 % 4 == 0 ? 2 * power : 0;
        CHECK(m.norm[lane] == doctest::Approx(std::ldexp(plain.norm[lane], shift)).epsilon(1e-15));
        CHECK(m.subset_norm[lane] ==
              doctest::Approx(std::ldexp(plain.subset_norm[lane], shift)).epsilon(1e-15));
        CHECK(m.subset_norm[lane] <= m.norm[lane]);
        CHECK(m.mass[lane] == plain.mass[lane]);
      }
      Head all_scaled = head;
      for (Row& row : all_scaled.keys)
        for (double& x : row) x = std::ldexp(x, 2 * power);
      const Measured all = measure(all_scaled);
      for (std::size_t n = 0; n < head.map.omega.size(); ++n) {
        CHECK(all.usage[n] == std::ldexp(plain.usage[n], 2 * power));
        CHECK(all.usage_norm[n] == std::ldexp(plain.usage_norm[n], 2 * power));
      }
    }
  });
}

TEST_CASE("margins: d, D(0), sum |d|, rounding and orientation, on every SIMD target") {
  on_every_target([] {
    for (const std::size_t pairs : {1, 3, 8, 13, 16, 35}) {
      CAPTURE(pairs);
      const Head head = make_head(2, 2 * pairs, 100 + pairs);
      const std::size_t h = head.map.omega.size();
      std::vector<Row> first(head.keys.begin(), head.keys.begin() + static_cast<std::ptrdiff_t>(pairs)),
          second(head.keys.begin() + static_cast<std::ptrdiff_t>(pairs), head.keys.end());
      const VectorColumns query = columns_of(head, head.queries), one = columns_of(head, first),
                          other = columns_of(head, second);
      VectorColumns difference;
      ColumnBounds query_bounds, pair_bounds;
      const RoundingUnits units{0x1p-8, 0x1p-11};
      bound_columns(query, query_bounds);
      difference_columns(one, other, units, difference, pair_bounds);
      CoefficientBatch batch;
      batch.reset(h, 2 * pairs);
      std::vector<double> value(2 * pairs), magnitude, deviation, expected_value, expected_magnitude,
          expected_deviation, d, expected_d, c(2 * pairs), expected_c;
      for (std::size_t i = 0; i < 2; ++i) {
        PairRun run{&query, &difference, i, 0, pairs, i * pairs, i * pairs};
        if (i == 0) {  // both queries at once, or one by one
          run.queries = pairs % 2 == 0 ? 2 : 1;
          measure_margins(run, value.data(), batch);
        } else if (pairs % 2 != 0) {
          measure_margins(run, value.data(), batch);
        }
        run.queries = 1;
        run.key = &one;
        pair_constants(run, c.data() + i * pairs);
        for (std::size_t t = 0; t < pairs; ++t) {
          long double at_zero = 0, sum = 0, squares = 0;
          for (std::size_t n = 0; n < h; ++n) {
            const Complex z = coefficient(head.map, head.queries[i], first[t], n) -
                              coefficient(head.map, head.queries[i], second[t], n);
            at_zero += z.real();
            sum += std::abs(z);
            d.push_back(batch.re[n * batch.stride + i * pairs + t]);
            d.push_back(batch.im[n * batch.stride + i * pairs + t]);
            expected_d.push_back(static_cast<double>(z.real()));
            expected_d.push_back(static_cast<double>(z.imag()));
          }
          for (std::size_t lane = 0; lane < first[t].size(); ++lane) {
            const long double q = head.queries[i][lane], a = first[t][lane], b = second[t][lane];
            squares += q * q * (0x1p-16L * (a - b) * (a - b) + 0x1p-22L * (a * a + b * b));
          }
          expected_value.push_back(static_cast<double>(at_zero));
          magnitude.push_back(lane_magnitude(batch, i * pairs + t));
          deviation.push_back(margin_rounding(query, i, one, other, t, units));
          CHECK(query_bounds.size[i] * pair_bounds.size[t] >= static_cast<double>(sum));
          CHECK(query_bounds.largest[i] * pair_bounds.rounding[t] >= (1 - 1e-14) * deviation.back());
          expected_magnitude.push_back(static_cast<double>(sum));
          expected_deviation.push_back(static_cast<double>(squares));
          expected_c.push_back(static_cast<double>(constant_of(head.map, head.queries[i], first[t])));
        }
      }
      for (const Comparison& comparison : {compare_absolute("d", d, expected_d, 2e-15),
                                           compare_absolute("D(0)", value, expected_value, 1e-14),
                                           compare_relative("sum |d|", magnitude, expected_magnitude, 2e-15),
                                           compare_relative("rounding", deviation, expected_deviation, 3e-15),
                                           compare_absolute("c_0", c, expected_c, 4e-15)})
        CHECK_MESSAGE(comparison.ok(), comparison.text());

      std::vector<double> sign(batch.stride);
      for (std::size_t lane = 0; lane < 2 * pairs; ++lane) sign[lane] = static_cast<double>(lane % 3) - 1.0;
      batch.im[2] = std::nan("");
      CoefficientBatch oriented = batch;
      if (pairs > 1) oriented.re[1] = HUGE_VAL;  // lane 1 has sign 0
      orient_lanes(oriented, sign);
      for (std::size_t lane = 0; lane < batch.stride; ++lane) {
        if (lane == 2) continue;
        CHECK(oriented.re[lane] == (sign[lane] == 0 ? 0.0 : sign[lane] * batch.re[lane]));
        CHECK(oriented.im[batch.stride + lane] ==
              (sign[lane] == 0 ? 0.0 : sign[lane] * batch.im[batch.stride + lane]));
      }
    }
  });
}

TEST_CASE("margins: the sum of moduli neither underflows nor overflows") {
  CoefficientBatch batch;
  batch.reset(2, 3);
  for (std::size_t lane = 0; lane < 3; ++lane) {
    const int power = 1000 * (static_cast<int>(lane) - 1);
    batch.re[lane] = std::ldexp(3.0, power);
    batch.im[lane] = std::ldexp(-4.0, power);
    batch.im[batch.stride + lane] = std::ldexp(2.0, power);
    CHECK(lane_magnitude(batch, lane) == std::ldexp(7.0, power));
  }
}

TEST_CASE("columns: turning there and back; wrong shapes are refused") {
  const Head head = make_head(3, 9, 14);
  const auto phases = make_phase_columns(head.map.omega, head.key_positions);
  on_every_target([&] {
    const VectorColumns key = columns_of(head, head.keys);
    VectorColumns turned = key;
    turn_columns(turned, phases, 0, 1);
    auto rows = head.keys;
    std::vector<double> expected, value, back, original;
    for (std::size_t t = 0; t < rows.size(); ++t) {
      rotate_rows(rows[t].data(), 1, head.dim, head.map, std::span(head.key_positions).subspan(t, 1), 1);
      for (std::size_t n = 0; n < head.map.omega.size(); ++n) {
        expected.push_back(rows[t][static_cast<std::size_t>(head.map.b[n])]);
        value.push_back(turned.row(turned.n_freq + n)[t]);
      }
    }
    CHECK_COMPARISON(compare_absolute("turned", value, expected, 1e-15));
    turn_columns(turned, phases, 0, -1);
    for (std::size_t r = 0; r < key.rows(); ++r)
      for (std::size_t t = 0; t < 9; ++t) {
        back.push_back(turned.row(r)[t]);
        original.push_back(key.row(r)[t]);
      }
    CHECK_COMPARISON(compare_absolute("turned back", back, original, 1e-15));
  });
  VectorColumns key = columns_of(head, head.keys);
  CHECK_THROWS_AS(turn_columns(key, phases, 1, 1), std::logic_error);
  CoefficientBatch batch;
  batch.reset(head.map.omega.size(), 8);
  CHECK_THROWS_AS(multiply_pairs({&key, &key, 0, 0, 9, 0, 0}, batch), std::logic_error);
  CHECK_THROWS_AS(multiply_pairs({&key, &key, 9, 0, 8, 0, 0}, batch), std::logic_error);
  CHECK_THROWS_AS(multiply_pairs({&key, &key, 0, 2, 8, 0, 0}, batch), std::logic_error);
}

TEST_CASE("batch: shaping leaves the lanes and zeroes the padding") {
  CoefficientBatch batch;
  batch.reset(2, 32);
  std::fill(batch.re.begin(), batch.re.end(), 3.0);
  batch.shape(2, 19);
  CHECK(batch.stride == 32);
  for (std::size_t lane = 0; lane < 32; ++lane) CHECK(batch.re[32 + lane] == (lane < 19 ? 3.0 : 0.0));
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
