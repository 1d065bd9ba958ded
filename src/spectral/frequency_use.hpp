#pragma once

#include <span>

namespace rope::spectral {

/// sigma / mu over the pairs, population form; 0 = all pairs used alike. NaN where the sum is 0 (theory §12;
/// A §3).
double usage_variation(std::span<const double> usage);

/// sum u_n ln omega_n / sum u_n. NaN where the sum is 0 (theory §12).
double usage_centroid(std::span<const double> usage, std::span<const double> log_omega);

}  // namespace rope::spectral
