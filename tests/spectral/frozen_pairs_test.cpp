#include "spectral/frozen_pairs.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "reference/adarope.hpp"
#include "spectral/sweep_cases.hpp"
#include "support/compare.hpp"

namespace rope::test {
namespace {

using namespace spectral;

FrozenPairs freeze(const std::vector<double>& omega, std::int64_t window,
                   const std::vector<reference::Vector>& vectors, double softcap = 0) {
  return freeze_each_pair(SweepPlan(omega, window), WindowMoments(omega, window),
                          make_batch(vectors, omega.size()), softcap);
}

void check_against_reference(const std::vector<double>& omega, std::int64_t window,
                             const std::vector<reference::Vector>& vectors, double softcap) {
  const FrozenPairs result = freeze(omega, window, vectors, softcap);
  std::vector<double> length, variance, frozen_length, frozen_variance, size;
  for (const auto& vector : vectors) {
    const auto whole = reference::freeze_pair(vector, omega, window, -1, softcap);
    length.push_back(whole.effective_length);
    variance.push_back(whole.variance);
  }
  for (std::size_t n = 0; n < omega.size(); ++n)
    for (const auto& vector : vectors) {
      const auto frozen = reference::freeze_pair(vector, omega, window, static_cast<int>(n), softcap);
      frozen_length.push_back(frozen.effective_length);
      frozen_variance.push_back(frozen.variance);
    }
  CHECK_COMPARISON(compare_relative("E_2", result.effective_length, length, 1e-11));
  CHECK_COMPARISON(
      compare_relative("E_2, one pair frozen", result.frozen_effective_length, frozen_length, 1e-11));
  CHECK_COMPARISON(compare_relative("variance", result.variance, variance, 1e-10, 1e-12));
  CHECK_COMPARISON(
      compare_relative("variance, one pair frozen", result.frozen_variance, frozen_variance, 1e-10, 1e-12));
}

TEST_SUITE_BEGIN("spectral");

TEST_CASE("frozen pairs: E_2 and variance as summed over the window") {
  for (Spread spread :
       {Spread::kWhite, Spread::kSlowOnly, Spread::kSlowHeavy, Spread::kFastOnly, Spread::kOne}) {
    check_against_reference(geometric_grid(1e4, 8), 300, make_vectors(5, 8, spread, 2.0, 3), 0);
    check_against_reference({3.0, 0.7, 0.7, 0.01, 1e-4}, 65, make_vectors(70, 5, spread, 1.0, 4), 0);
  }
  check_against_reference(geometric_grid(1e6, 32), 2, make_vectors(3, 32, Spread::kWhite, 2.0, 5), 0);
  check_against_reference({1.0}, 64, make_vectors(4, 1, Spread::kWhite, 2.0, 6), 0);
}

TEST_CASE("frozen pairs: under a softcap the frozen score still counts") {
  check_against_reference(geometric_grid(1e4, 8), 300, make_vectors(6, 8, Spread::kWhite, 4.0, 7), 3.0);
  // Its sign matters there: at distance 0 the pair adds to the constant, not to nothing.
  std::vector<reference::Vector> vectors = make_vectors(1, 4, Spread::kWhite, 2.0, 8);
  vectors[0].z[0] = {6.0, 0.5};
  check_against_reference(geometric_grid(100, 4), 200, vectors, 3.0);
}

TEST_CASE(
    "frozen pairs: freezing an unused pair changes nothing, freezing all that turns leaves the window") {
  const std::vector<double> omega = geometric_grid(1e4, 6);
  std::vector<reference::Vector> vectors = make_vectors(9, 6, Spread::kWhite, 2.0, 9);
  for (std::size_t v = 0; v < vectors.size(); ++v) vectors[v].z[v % 6] = 0;
  for (double softcap : {0.0, 5.0}) {
    const FrozenPairs result = freeze(omega, 500, vectors, softcap);
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      const std::size_t at = (v % 6) * vectors.size() + v;
      CHECK(result.frozen_effective_length[at] == result.effective_length[v]);
      CHECK(result.frozen_variance[at] == result.variance[v]);
    }
  }
  const FrozenPairs one = freeze(omega, 500, make_vectors(6, 6, Spread::kOne, 2.0, 10));
  for (std::size_t v = 0; v < 6; ++v) {
    CHECK(one.frozen_effective_length[v * 6 + v] == doctest::Approx(500));
    CHECK(one.frozen_variance[v * 6 + v] == 0);
  }
}

TEST_CASE("frozen pairs: a lane does not depend on its neighbours") {
  const std::vector<double> omega = geometric_grid(1e4, 32);
  const auto vectors = make_vectors(100, 32, Spread::kWhite, 2.0, 11);
  const FrozenPairs together = freeze(omega, 200, vectors);
  for (std::size_t v : {0u, 30u, 31u, 99u}) {
    const FrozenPairs alone = freeze(omega, 200, {vectors[v]});
    CHECK(alone.effective_length[0] == together.effective_length[v]);
    for (std::size_t n = 0; n < 32; ++n) {
      CHECK(alone.frozen_effective_length[n] == together.frozen_effective_length[n * 100 + v]);
      CHECK(alone.frozen_variance[n] == together.frozen_variance[n * 100 + v]);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
