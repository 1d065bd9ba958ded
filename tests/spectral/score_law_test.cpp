#include "spectral/score_law.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "reference/band.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/simd_targets.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

struct Counted {
  ScoreLaw::Counts counts{};
  std::int64_t vectors = 0;
  double error = 0;
};

/// Counts of the scores over the given pairs of every vector.
Counted count_of(const std::vector<double>& omega, const std::vector<int>& pairs, std::int64_t window,
                 const std::vector<reference::Vector>& vectors, std::size_t first = 0) {
  const CoefficientBatch batch = make_batch(vectors, omega.size(), 0, first);
  std::vector<char> mask(omega.size(), 0);
  std::vector<double> high, norm(batch.n_pairs), subset(batch.n_pairs);
  for (const int n : pairs) {
    mask[static_cast<std::size_t>(n)] = 1;
    high.push_back(omega[static_cast<std::size_t>(n)]);
  }
  pair_norms(batch, mask, norm, subset);
  const ScoreCounter counter(high, window);
  Counted counted;
  counted.error = counter.coordinate_error();
  counted.vectors = counter.count(batch, pairs, subset, counted.counts);
  return counted;
}

/// Every edge's count lies between those of the exact scores at the edge less and plus the stated error.
void check_counts(const std::string& name, const Counted& counted,
                  const std::vector<std::vector<double>>& scores) {
  CAPTURE(name);
  std::vector<double> all;
  for (const auto& one : scores) all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  const auto below = [&](double x) {
    return static_cast<std::uint64_t>(std::lower_bound(all.begin(), all.end(), x) - all.begin());
  };
  std::uint64_t sum = 0;
  int wrong = 0;
  for (int bin = 0; bin <= ScoreLaw::kInner; ++bin) {
    sum += counted.counts[static_cast<std::size_t>(bin)];
    const double edge = -8 + bin / 512.0;
    wrong += sum < below(edge - counted.error) || sum > below(edge + counted.error);
  }
  CHECK(wrong == 0);
  CHECK(sum + counted.counts.back() == all.size());
  CHECK(counted.error < 2e-4);
}

std::vector<std::vector<double>> exact_scores(const std::vector<double>& omega, const std::vector<int>& pairs,
                                              std::int64_t window,
                                              const std::vector<reference::Vector>& vectors) {
  std::vector<std::vector<double>> scores;
  for (const auto& vector : vectors) {
    auto one = reference::standardised_scores(vector, omega, pairs, window);
    if (!one.empty()) scores.push_back(std::move(one));
  }
  return scores;
}

std::vector<int> first_pairs(int count) {
  std::vector<int> pairs;
  for (int n = 0; n < count; ++n) pairs.push_back(n);
  return pairs;
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("score law: counts are those of direct summation, on every instruction set") {
  for (const std::string& target : simd_available()) {
    CAPTURE(target);
    select_simd(target);
    // Windows around half blocks, blocks and the 16 blocks after which phases are made anew.
    for (const std::int64_t window :
         {1, 2, 3, 63, 64, 65, 127, 128, 129, 192, 193, 300, 2047, 2048, 2049, 2500}) {
      const std::vector<double> omega = geometric_grid(1e4, 9);
      for (const std::size_t lanes : {1, 5, 37}) {
        const auto vectors = make_vectors(lanes, 9, Spread::kWhite, 3.0, 11 * lanes);
        for (const int size : {1, 4, 9}) {
          const std::string name = "M = " + std::to_string(window) + ", |H| = " + std::to_string(size);
          const auto counted = count_of(omega, first_pairs(size), window, vectors);
          CHECK(counted.vectors == std::ssize(vectors));
          check_counts(name, counted, exact_scores(omega, first_pairs(size), window, vectors));
        }
      }
    }
  }
  select_simd("auto");
}

TEST_CASE("score law: grids, sizes and subsets") {
  const auto check = [](const std::string& name, const std::vector<double>& omega,
                        const std::vector<int>& pairs, std::int64_t window,
                        const std::vector<reference::Vector>& vectors) {
    const auto counted = count_of(omega, pairs, window, vectors);
    check_counts(name, counted, exact_scores(omega, pairs, window, vectors));
    return counted;
  };
  const std::vector<double> grid = geometric_grid(1e6, 64);
  check("64 pairs", grid, first_pairs(40), 1500, make_vectors(6, 64, Spread::kWhite, 2.0, 1));
  check("one dominant", grid, first_pairs(64), 700, make_vectors(9, 64, Spread::kOne, 2.0, 2));
  check("all slow", grid, first_pairs(64), 700, make_vectors(5, 64, Spread::kSlowOnly, 2.0, 3));
  for (const double size : {1e-300, 1e-30, 1e30, 1e280})
    check("size", grid, first_pairs(20), 300, make_vectors(3, 64, Spread::kWhite, size, 4));
  check("up to pi, no order", {std::numbers::pi, 1e-7, 3.0, 0.5}, {0, 2, 3}, 700,
        make_vectors(7, 4, Spread::kWhite, 1.0, 5));
  // A large window: phases are turned through many blocks.
  check("long", {1.0, 0.1}, {0, 1}, 70000, make_vectors(2, 2, Spread::kWhite, 1.0, 6));
  // Aligned at distance 0: sqrt(2 * 64) is beyond the reach.
  reference::Vector aligned;
  aligned.z.assign(64, 1.0);
  const Counted beyond = check("aligned", grid, first_pairs(64), 10, {aligned});
  CHECK(beyond.counts.back() > 0);
  aligned.z.assign(64, -1.0);
  CHECK(check("aligned, below", grid, first_pairs(64), 10, {aligned}).counts.front() > 0);
}

TEST_CASE("score law: vectors without energy in H are left out, and neighbours do not matter") {
  const std::vector<double> omega = geometric_grid(1e4, 8);
  auto vectors = make_vectors(20, 8, Spread::kWhite, 1.0, 8);
  for (const std::size_t v : {0, 3, 19})
    for (std::size_t n = 0; n < 4; ++n) vectors[v].z[n] = 0;
  const auto counted = count_of(omega, first_pairs(4), 500, vectors);
  CHECK(counted.vectors == 17);
  check_counts("without some", counted, exact_scores(omega, first_pairs(4), 500, vectors));
  const auto moved = count_of(omega, first_pairs(4), 500, vectors, 7);
  CHECK(moved.counts == counted.counts);
  ScoreLaw::Counts apart{};
  for (const auto& vector : vectors) {
    const auto one = count_of(omega, first_pairs(4), 500, {vector});
    for (std::size_t b = 0; b < apart.size(); ++b) apart[b] += one.counts[b];
  }
  CHECK(apart == counted.counts);
}

TEST_CASE("score law: Kolmogorov's distance holds the exact one between its bounds") {
  const std::vector<double> omega = geometric_grid(1e4, 32);
  for (const int size : {1, 2, 8, 32}) {
    for (const Spread spread : {Spread::kWhite, Spread::kOne, Spread::kSlowOnly}) {
      ScoreLaw law;
      std::vector<std::vector<double>> scores;
      std::int64_t vectors = 0;
      // Vectors of different windows weigh the same.
      for (const std::int64_t window : {50, 333, 900}) {
        const auto here = make_vectors(5, 32, spread, 1.0, static_cast<std::uint64_t>(window + size));
        const auto counted = count_of(omega, first_pairs(size), window, here);
        law.add(counted.counts, counted.vectors, window, counted.error);
        vectors += counted.vectors;
        for (auto& one : exact_scores(omega, first_pairs(size), window, here))
          scores.push_back(std::move(one));
      }
      CHECK(law.vectors() == vectors);
      const ScoreLaw::Kolmogorov found = law.kolmogorov();
      if (scores.empty()) {
        CHECK(std::isnan(found.distance));
        continue;
      }
      const double exact = reference::kolmogorov_distance(scores);
      CAPTURE(size);
      CAPTURE(exact);
      CHECK(exact <= found.distance + found.error);
      CHECK(exact >= found.distance - found.error);
      CHECK(found.error < 0.2);
      // Shares below edges are the mean of the vectors' own.
      for (const int edge : {0, 3000, 4096, 4500, ScoreLaw::kInner}) {
        double share = 0;
        for (const auto& one : scores) {
          double below = 0;
          for (const double x : one) below += x < -8 + edge / 512.0;
          share += below / static_cast<double>(one.size()) / static_cast<double>(scores.size());
        }
        CHECK(law.share_below(edge) == doctest::Approx(share).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("score law: many pairs at many distances come near N(0, 1), and one pair does not") {
  const std::vector<double> omega = geometric_grid(50, 24);
  const auto vectors = make_vectors(40, 24, Spread::kWhite, 1.0, 77);
  ScoreLaw many, one;
  const auto all = count_of(omega, first_pairs(24), 5000, vectors);
  many.add(all.counts, all.vectors, 5000, all.error);
  CHECK(many.kolmogorov().distance < 0.02);
  CHECK(many.kolmogorov().error < 1e-3);
  const auto single = count_of(omega, {0}, 5000, vectors);
  one.add(single.counts, single.vectors, 5000, single.error);
  // sqrt(2) cos of a uniform angle has the arcsine law; at sqrt(2) it has ended, Phi has not.
  CHECK(one.kolmogorov().distance == doctest::Approx(1 - normal_below(std::numbers::sqrt2)).epsilon(0.02));
  CHECK(one.share_below(4096) == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("score law: an empty one, and refused arguments") {
  ScoreLaw law;
  CHECK(std::isnan(law.kolmogorov().distance));
  CHECK(std::isnan(law.share_below(0)));
  law.add({}, 0, 100, 0);
  CHECK(law.vectors() == 0);
  CHECK(std::isnan(law.kolmogorov().distance));
  CHECK(normal_below(0) == 0.5);
  CHECK(normal_below(-40) >= 0);
  CHECK_THROWS_AS(ScoreCounter({}, 5), std::logic_error);
  CHECK_THROWS_AS(ScoreCounter(std::vector{1.0}, 0), std::logic_error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
