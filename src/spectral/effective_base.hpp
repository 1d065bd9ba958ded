#pragma once

#include <span>

namespace rope::spectral {

/// Theta = exp(-(4 / (d - 2)) sum ln omega_i), d = 2h (theory §12; A §3): the base of the geometric grid
/// omega_n = Theta^(-n/h) with the same product of frequencies. omega: [h] rotating pairs, > 0. NaN for h
/// < 2.
double effective_base(std::span<const double> omega);

}  // namespace rope::spectral
