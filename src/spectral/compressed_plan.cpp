#include "spectral/compressed_plan.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "spectral/phase.hpp"

namespace rope::spectral {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

enum class Parity { kEven, kOdd };

double remainder(Parity parity, double offset, double omega) {
  return parity == Parity::kEven ? cos_minus_one(offset * omega) : phase_at(offset, omega).sin;
}

/// Columns: remainder functions of the frequencies at the offsets 1 ... half.
MatrixXd sample(Parity parity, std::span<const double> omega, std::size_t half) {
  MatrixXd columns(static_cast<Index>(half), static_cast<Index>(omega.size()));
  for (Index n = 0; n < columns.cols(); ++n) {
    for (Index t = 0; t < columns.rows(); ++t)
      columns(t, n) = remainder(parity, static_cast<double>(t + 1), omega[static_cast<std::size_t>(n)]);
  }
  return columns;
}

/// A basis that spans functions on the offsets 1 ... half: functions ~ values * weights.
struct Basis {
  MatrixXd values = MatrixXd(0, 0);   // [half, rank]
  MatrixXd weights = MatrixXd(0, 0);  // [rank, frequencies]
};

/// Columns scaled to one norm, so that the slowest are as right as the fastest. A column below the range of
/// float64 squares is as good as zero.
MatrixXd to_one_norm(const MatrixXd& functions) {
  const VectorXd norms = functions.colwise().norm();
  return functions * norms.unaryExpr([](double x) { return x > 1e-150 ? 1 / x : 0.0; }).asDiagonal();
}

/// Singular values above the tolerance, from the eigenvalues of a Gram matrix: float64 leaves values down to
/// 1e-8.
Index rank_of(const VectorXd& eigenvalues) {
  return (eigenvalues.array() > CompressedPlan::kTolerance * CompressedPlan::kTolerance).count();
}

/// Offsets 1 ... half, at most 128 of them evenly spread: enough to tell band-limited functions apart.
MatrixXd thinned(const MatrixXd& functions) {
  const Index step = std::max<Index>(1, functions.rows() / 128);
  return functions(Eigen::seq(step - 1, Eigen::last, step), Eigen::all);
}

Basis make_basis(const MatrixXd& functions) {
  const Index half = functions.rows(), count = functions.cols();
  if (count == 0) return {MatrixXd(half, 0), MatrixXd(0, 0)};
  const MatrixXd scaled = to_one_norm(functions);
  // Right singular vectors, through the smaller Gram matrix.
  MatrixXd vectors;
  if (count <= 128) {
    const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(scaled.transpose() * scaled);
    vectors = solver.eigenvectors().rightCols(rank_of(solver.eigenvalues()));
  } else {
    const MatrixXd few = to_one_norm(thinned(functions));
    const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(few * few.transpose());
    vectors = few.transpose() * solver.eigenvectors().rightCols(rank_of(solver.eigenvalues()));
  }
  const Index rank = vectors.cols();
  // Products with vectors of small values are not quite orthogonal; their span is what matters.
  const Eigen::HouseholderQR<MatrixXd> qr(scaled * vectors);
  const MatrixXd orthonormal = qr.householderQ() * MatrixXd::Identity(half, rank);
  const double size = std::sqrt(static_cast<double>(half));  // values of order 1, whatever `half`
  return {orthonormal * size, orthonormal.transpose() * functions / size};
}

/// Rank that make_basis would find.
std::size_t estimate_rank(const MatrixXd& scaled) {
  if (scaled.cols() == 0) return 0;
  const bool by_offsets = scaled.rows() <= scaled.cols();
  const MatrixXd gram =
      by_offsets ? MatrixXd(scaled * scaled.transpose()) : MatrixXd(scaled.transpose() * scaled);
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  return static_cast<std::size_t>(rank_of(solver.eigenvalues()));
}

/// Numbers of basis functions, and what they cost.
struct Sizes {
  std::size_t h = 0, direct = 0, middle = 0, inner_even = 0, inner_odd = 0, outer_even = 0, outer_odd = 0;

  /// Fused multiply-adds per pair and distance: rows of an inner block, coefficients of two mirrored inner
  /// blocks, and an outer block (whose float64 products count twice).
  double cost() const {
    const auto real = [](std::size_t n) { return static_cast<double>(n); };
    const std::size_t outer = outer_even + outer_odd, rest = h - direct - middle;
    return real(2 * direct + inner_even + inner_odd) / 2 +
           real(4 * direct + (1 + inner_even + inner_odd) * (2 * middle + outer)) / (4 * kInnerHalf) +
           real(8 * h + rest * outer) / (2 * kOuterHalf);
  }
};

std::size_t faster_than(std::span<const double> omega, double limit) {
  return static_cast<std::size_t>(
      std::partition_point(omega.begin(), omega.end(), [limit](double w) { return w > limit; }) -
      omega.begin());
}

// Time-bandwidth products above which frequencies are direct (inner) or middle (outer). Where frequencies
// are dense the higher ones are cheaper; the optimum is flat.
constexpr double kInnerLimits[] = {0.0, 7.0, 10.0, 13.0, 18.0, 28.0, 60.0, 250.0};
constexpr double kOuterLimits[] = {12.0, 28.0};

/// The cheapest split of falling frequencies.
Sizes choose_sizes(std::span<const double> omega) {
  const MatrixXd even = to_one_norm(sample(Parity::kEven, omega, kInnerHalf));
  const MatrixXd odd = to_one_norm(sample(Parity::kOdd, omega, kInnerHalf));
  Sizes outer[std::size(kOuterLimits)];
  for (std::size_t i = 0; i < std::size(kOuterLimits); ++i) {
    const std::size_t first = faster_than(omega, kOuterLimits[i] / kOuterHalf);
    const auto rest = omega.subspan(first);
    outer[i].middle = first;
    outer[i].outer_even = estimate_rank(to_one_norm(thinned(sample(Parity::kEven, rest, kOuterHalf))));
    outer[i].outer_odd = estimate_rank(to_one_norm(thinned(sample(Parity::kOdd, rest, kOuterHalf))));
  }
  Sizes best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (double limit : kInnerLimits) {
    const std::size_t direct = faster_than(omega, limit / kInnerHalf);
    const auto others = static_cast<Index>(omega.size() - direct);
    const std::size_t even_rank = estimate_rank(even.rightCols(others)),
                      odd_rank = estimate_rank(odd.rightCols(others));
    for (const Sizes& level : outer) {
      Sizes sizes = level;
      sizes.h = omega.size();
      sizes.direct = direct;
      sizes.middle = std::max(level.middle, direct) - direct;
      sizes.inner_even = even_rank;
      sizes.inner_odd = odd_rank;
      if (sizes.cost() < best_cost) {
        best_cost = sizes.cost();
        best = sizes;
      }
    }
  }
  return best;
}

/// The bases of the chosen split.
struct Split {
  Basis inner_even, inner_odd, outer_even, outer_odd;

  Split(std::span<const double> omega, const Sizes& sizes) {
    const auto others = omega.subspan(sizes.direct), rest = others.subspan(sizes.middle);
    inner_even = make_basis(sample(Parity::kEven, others, kInnerHalf));
    inner_odd = make_basis(sample(Parity::kOdd, others, kInnerHalf));
    outer_even = make_basis(sample(Parity::kEven, rest, kOuterHalf));
    outer_odd = make_basis(sample(Parity::kOdd, rest, kOuterHalf));
  }
};

/// Rows in tiles of kPlanTile, [tiles][columns][kPlanTile], padded with zeros; appended to `to`.
void append_tiles(const MatrixXd& m, std::vector<float>& to) {
  const auto tile = static_cast<Index>(kPlanTile);
  for (Index first = 0; first < m.rows(); first += tile) {
    for (Index c = 0; c < m.cols(); ++c) {
      for (Index r = first; r < first + tile; ++r)
        to.push_back(r < m.rows() ? static_cast<float>(m(r, c)) : 0.0f);
    }
  }
}

std::vector<float> inner_table(Parity parity, std::span<const double> direct, const Basis& basis) {
  MatrixXd table(static_cast<Index>(kInnerHalf), static_cast<Index>(direct.size()) + basis.values.cols());
  table << sample(parity, direct, kInnerHalf), basis.values;
  std::vector<float> tiles;
  append_tiles(table, tiles);
  return tiles;
}

/// Outer functions of one parity at the offsets 0 ... kOuterHalf.
MatrixXd outer_functions(Parity parity, std::span<const double> middle, const Basis& basis) {
  const auto m = static_cast<Index>(middle.size());
  MatrixXd f = MatrixXd::Zero(kOuterHalf + 1, m + basis.values.cols());
  f.block(1, 0, kOuterHalf, m) = sample(parity, middle, kOuterHalf);
  f.block(1, m, kOuterHalf, basis.values.cols()) = basis.values;
  return f;
}

/// Rows of `transfer` for one shift: value, even and odd part of every outer function about that shift, in
/// the inner basis.
MatrixXd transfer_about(Index shift, const MatrixXd& functions, const Split& split) {
  const auto half = static_cast<Index>(kInnerHalf);
  const MatrixXd ahead = functions.middleRows(shift + 1, half);
  const MatrixXd behind = functions.middleRows(shift - half, half).colwise().reverse();
  const auto at_shift = functions.row(shift);
  const MatrixXd even = ((ahead + behind) / 2).rowwise() - at_shift;
  const MatrixXd odd = (ahead - behind) / 2;
  const double unit = 1.0 / static_cast<double>(kInnerHalf);  // values^T values = kInnerHalf * identity
  MatrixXd rows(1 + split.inner_even.values.cols() + split.inner_odd.values.cols(), functions.cols());
  rows.row(0) = at_shift;
  rows.middleRows(1, split.inner_even.values.cols()) = unit * (split.inner_even.values.transpose() * even);
  rows.bottomRows(split.inner_odd.values.cols()) = unit * (split.inner_odd.values.transpose() * odd);
  return rows;
}

}  // namespace

CompressedPlan::CompressedPlan(std::span<const double> frequencies) : n_freq(frequencies.size()) {
  order.resize(n_freq);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return frequencies[a] > frequencies[b]; });
  for (std::size_t n : order) {
    omega.push_back(frequencies[n]);
    const Phase turned = phase_at(2.0 * kOuterHalf, omega.back());
    advance.push_back(turned.cos);
    advance.push_back(turned.sin);
    const double far = std::min(1.0, kOuterHalf * omega.back());
    reach.insert(reach.end(), {std::min(1.0, kInnerHalf * omega.back()), far, far * far});
  }

  const Sizes sizes = choose_sizes(omega);
  const Split split(omega, sizes);
  n_direct = sizes.direct;
  n_middle = sizes.middle;
  inner_even = static_cast<std::size_t>(split.inner_even.values.cols());
  inner_odd = static_cast<std::size_t>(split.inner_odd.values.cols());
  outer_even = static_cast<std::size_t>(split.outer_even.values.cols());
  outer_odd = static_cast<std::size_t>(split.outer_odd.values.cols());

  const std::span<const double> all(omega);
  even_table = inner_table(Parity::kEven, all.first(n_direct), split.inner_even);
  odd_table = inner_table(Parity::kOdd, all.first(n_direct), split.inner_odd);
  append_tiles(split.outer_even.weights, project_even);
  append_tiles(split.outer_odd.weights, project_odd);
  const auto middle = all.subspan(n_direct, n_middle);
  const MatrixXd a = outer_functions(Parity::kEven, middle, split.outer_even);
  const MatrixXd b = outer_functions(Parity::kOdd, middle, split.outer_odd);
  for (std::size_t j = 0; j < kInnerPairs; ++j) {
    const std::int64_t shift = inner_shift(j);
    for (std::size_t n = 0; n < n_direct; ++n) {
      const Phase e = phase_at(static_cast<double>(shift), omega[n]);
      turn.push_back(static_cast<float>(e.cos));
      turn.push_back(static_cast<float>(e.sin));
    }
    append_tiles(transfer_about(shift, a, split), transfer_a);
    append_tiles(transfer_about(shift, b, split), transfer_b);
  }
}

double CompressedPlan::cost() const {
  return Sizes{n_freq, n_direct, n_middle, inner_even, inner_odd, outer_even, outer_odd}.cost();
}

}  // namespace rope::spectral
