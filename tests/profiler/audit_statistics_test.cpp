// Quantiles, rank correlations and equal-count bins of an audit against plain counting.

#include "profiler/audit_statistics.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "profiler/random.hpp"
#include "profiler/ranking.hpp"
#include "reference/envelope.hpp"
#include "support/compare.hpp"

using namespace rope;
using namespace rope::test;

namespace {

std::vector<AuditRow> random_rows(std::size_t count, std::uint64_t seed, double grain = 0) {
  Random random(seed);
  std::vector<AuditRow> rows;
  for (std::size_t i = 0; i < count; ++i) {
    AuditRow row;
    row.share = random.uniform();
    if (grain > 0) row.share = std::floor(row.share / grain) * grain;  // many ties
    row.envelope = 0.2 + row.share + 0.3 * random.uniform();
    row.response = row.envelope * (0.5 + 0.5 * random.uniform());
    row.floor_ratio = i % 7 == 0 ? std::nan("") : random.uniform();
    rows.push_back(row);
  }
  return rows;
}

std::vector<const AuditRow*> pointers(const std::vector<AuditRow>& rows) {
  std::vector<const AuditRow*> all;
  for (const AuditRow& row : rows) all.push_back(&row);
  return all;
}

template <class F>
std::vector<double> column(const std::vector<AuditRow>& rows, F value) {
  std::vector<double> values;
  for (const AuditRow& row : rows) values.push_back(value(row));
  return values;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("audit statistics: quantiles are numpy's, linear between neighbours") {
  std::vector<double> four{4, 1, 3, 2};
  CHECK(quantile(four, 0.5) == 2.5);
  CHECK(quantile(four, 0.1) == doctest::Approx(1.3).epsilon(1e-15));
  CHECK(quantile(four, 0.0) == 1);
  CHECK(quantile(four, 1.0) == 4);
  std::vector<double> one{7};
  CHECK(quantile(one, 0.9) == 7);
  CHECK(std::isnan(quantile({}, 0.5)));
  Random random(3);
  for (const std::size_t n : {2, 3, 10, 101, 1000}) {
    std::vector<double> values;
    for (std::size_t i = 0; i < n; ++i) values.push_back(std::floor(20 * random.normal()));
    for (const double q : {0.0, 0.1, 0.25, 0.5, 0.9, 0.999, 1.0})
      CHECK(quantile(values, q) == doctest::Approx(reference::quantile(values, q)).epsilon(1e-14));
  }
}

TEST_CASE("audit statistics: medians, Spearman and bins against counting") {
  for (const auto& [count, grain] :
       {std::pair<std::size_t, double>{2, 0}, {33, 0}, {1000, 0}, {1000, 0.05}, {1037, 0.3}}) {
    CAPTURE(count);
    CAPTURE(grain);
    const std::vector<AuditRow> rows = random_rows(count, 11 + count, grain);
    const AuditStatistics s = audit_statistics(pointers(rows), true);
    const auto share = column(rows, [](const AuditRow& r) { return r.share; });
    const auto response = column(rows, [](const AuditRow& r) { return r.response; });
    const auto envelope = column(rows, [](const AuditRow& r) { return r.envelope; });
    auto floors = column(rows, [](const AuditRow& r) { return r.floor_ratio; });
    std::erase_if(floors, [](double x) { return std::isnan(x); });
    CHECK(s.rows == std::ssize(rows));
    CHECK(s.share_varies);
    CHECK(s.median_response_ratio ==
          reference::quantile(column(rows, [](const AuditRow& r) { return r.response / r.envelope; }), 0.5));
    CHECK(s.median_norm_floor_ratio == reference::quantile(floors, 0.5));
    const std::vector<double> rho{s.spearman_share_response, s.spearman_share_envelope},
        counted{reference::spearman_by_counting(share, response),
                reference::spearman_by_counting(share, envelope)};
    CHECK(compare_absolute("rho", rho, counted, 1e-12).ok());
    CHECK(s.spearman_share_response == doctest::Approx(spearman(share, response)).epsilon(1e-12));

    // Bins: rows in the order of (share, place), cut into equal counts.
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return share[a] < share[b]; });
    REQUIRE(s.bins.size() == std::min<std::size_t>(32, count));
    std::int64_t total = 0, least = s.bins[0].pairs, most = least;
    for (std::size_t b = 0; b < s.bins.size(); ++b) {
      const ShareBin& bin = s.bins[b];
      std::vector<double> x, y, z;
      for (std::int64_t i = 0; i < bin.pairs; ++i) {
        const std::size_t row = order[static_cast<std::size_t>(total + i)];
        x.push_back(share[row]);
        y.push_back(response[row]);
        z.push_back(envelope[row]);
      }
      const std::vector<double> got{bin.share_low,    bin.share_median,    bin.share_high,
                                    bin.response_low, bin.response_median, bin.response_high,
                                    bin.envelope_low, bin.envelope_median, bin.envelope_high};
      std::vector<double> want{reference::quantile(x, 0), reference::quantile(x, 0.5),
                               reference::quantile(x, 1)};
      for (const auto* values : {&y, &z})
        for (const double q : {0.1, 0.5, 0.9}) want.push_back(reference::quantile(*values, q));
      CHECK(compare_relative("bin", got, want, 1e-14).ok());
      total += bin.pairs;
      least = std::min(least, bin.pairs);
      most = std::max(most, bin.pairs);
      if (b > 0) CHECK(bin.share_low >= s.bins[b - 1].share_high);
    }
    CHECK(total == std::ssize(rows));
    CHECK(most - least <= 1);
    CHECK(audit_statistics(pointers(rows), false).bins.empty());
  }
}

TEST_CASE("audit statistics: a constant share has no rank correlation and no bins; nothing has nothing") {
  std::vector<AuditRow> rows = random_rows(50, 4);
  for (AuditRow& row : rows) {
    row.share = 0;
    row.floor_ratio = std::nan("");
  }
  const AuditStatistics s = audit_statistics(pointers(rows), true);
  CHECK_FALSE(s.share_varies);
  CHECK(s.bins.empty());
  CHECK(std::isnan(s.spearman_share_response));
  CHECK(std::isnan(s.spearman_share_envelope));
  CHECK(std::isnan(s.median_norm_floor_ratio));
  CHECK(s.median_response_ratio > 0);
  const AuditStatistics none = audit_statistics({}, true);
  CHECK(none.rows == 0);
  CHECK(std::isnan(none.median_response_ratio));
  CHECK(none.bins.empty());
  rows = random_rows(50, 4);
  for (AuditRow& row : rows) row.envelope = 1;
  CHECK(std::isnan(audit_statistics(pointers(rows), true).spearman_share_envelope));
}

TEST_SUITE_END();
