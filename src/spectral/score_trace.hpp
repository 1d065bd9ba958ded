#pragma once

#include <cstdint>
#include <vector>

namespace rope::spectral {

/// One pair, or one margin, to be looked at distance by distance (theory §1).
struct TraceVector {
  std::vector<double> omega;   ///< [n] rotating pairs, > 0, radians per token
  std::vector<char> high;      ///< [n] membership in H
  std::vector<double> re, im;  ///< [n] z_n, or d_n
  double constant = 0.0;       ///< c_0, or c_D
};

/// S(m) and what it is made of: S = high + low + c_0.
struct TracePoint {
  double score = 0;  ///< S(m) = c_0 + Re sum_n z_n e^{i m omega_n}
  double step = 0;   ///< g(m) = S(m+1) - S(m), a sum with coefficients z_n (e^{i omega_n} - 1) of its own
  double high = 0;   ///< the part of the pairs in H
  double low = 0;    ///< the part of the other rotating pairs
};

/// Evaluates a vector at any distance, exact to float64: phases right to 2^-52 (phase.hpp) and compensated
/// sums, so that each part is within 4 * 2^-53 times the sum of its coefficients' sizes of real arithmetic.
class ScoreTrace {
 public:
  explicit ScoreTrace(TraceVector vector);
  const TraceVector& vector() const { return vector_; }

  /// m: |m| < 2^53.
  TracePoint at(std::int64_t m) const;

 private:
  TraceVector vector_;
  std::vector<double> step_re_, step_im_;  // z (e^{i omega} - 1)
};

}  // namespace rope::spectral
