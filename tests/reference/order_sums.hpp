#pragma once

#include <cstdint>
#include <vector>

#include "reference/direct_sums.hpp"

namespace rope::reference {

// Near-far order and barrier exceedance (theory §11), written from theory.md alone, as direct_sums.

/// p_ord = P[S(m_far) > S(m_near)], m_near uniform on M+1 ... 2M, m_far on 2M+1 ... 3M.
struct NearFar {
  double exact = 0;          ///< the double sum; equal scores do not count
  double gaussian = 0;       ///< from two-pass moments of both sides
  double gaussian_room = 0;  ///< how much rounding of the moments in float64 may change it
  double doubtful = 0;       ///< share of the double sum whose scores are closer than 1e-13 sum|z|
};
NearFar near_far(const Vector& vector, const std::vector<double>& omega, std::int64_t m);

/// p_exc(S_0) = P[S(m) > S_0], m uniform on 0 ... window - 1.
struct Barrier {
  double exact = 0;
  double doubtful = 0;  ///< share of distances with |S - S_0| below 1e-13 (sum|z| + |c_0| + |S_0|)
  double gaussian = 0;  ///< Phi((mu - S_0) / sigma)
  double limit = 0;     ///< P (45): Var_N + U_H^2 / 2 + 2 Cov(X_H, X_N) in place of the variance
  long double limit_variance = 0;
};
Barrier barrier(const Vector& vector, const std::vector<double>& omega, std::int64_t window,
                const std::vector<char>& high, double level);

}  // namespace rope::reference
