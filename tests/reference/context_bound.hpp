#pragma once

#include <cstdint>
#include <vector>

namespace rope::reference {

/// Theory §10 as it stands there, in long double, formula by formula.
struct ContextBound {
  std::vector<double> omega;
  double rho = 0, c = 0, epsilon = 0;

  long double response_limit() const;  ///< R_F
  long double gamma() const;           ///< Gamma
  int slow_pairs(std::int64_t window) const;
  long double response_floor(std::int64_t window, double response) const;  ///< l
  long double mean_bound(int slow_pairs, long double share) const;         ///< u
  long double deviation_floor(int slow_pairs, long double share) const;    ///< v
  long double p_floor(std::int64_t window, double response, double tau) const;
  long double delta_star(double tau) const;
  std::int64_t sufficient_window(double response) const;  ///< M_suff
};

}  // namespace rope::reference
