#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace rope::reference {

// Slow and plain: sums over all distances in long double, written from theory.md alone. Nothing here uses the
// product's code, so that agreement means something.

/// One margin or pair: S(m) = constant + Re sum_n z_n e^{i m omega_n} (theory §1).
struct Vector {
  std::vector<std::complex<double>> z;  ///< [h]
  double constant = 0.0;                ///< c_0
};

/// Everything about S(m), m = 0 ... window - 1.
struct WindowSums {
  long double mean = 0, variance = 0;  ///< of S (theory §2), two passes
  double mean_response = 0;            ///< 1/(M-1) sum |S(m+1) - S(m)|, not divided by U (theory §4)
  double response_max = 0;             ///< max |S(m+1) - S(m)|
  double effective_length = 0;         ///< E_2 of softmax S, or of softmax cap tanh(S / cap) (theory §12)
  double aliasing = 0;                 ///< share of neighbours equal in bfloat16 (theory §11)
  double aliasing_f16 = 0;             ///< the same in float16
  std::int64_t reversals = 0;          ///< #{m : S(m) < 0}
  std::int64_t doubtful = 0;           ///< of the window's distances, those with |S| < 1e-13 (sum|z| + |c_0|)
  double start = 0;                    ///< S(0)
};

/// window = 1 leaves the three adjacent figures at 0. softcap 0 = none.
std::vector<WindowSums> sum_over_window(const std::vector<Vector>& vectors, const std::vector<double>& omega,
                                        std::int64_t window, double softcap = 0.0);

/// The nearest bfloat16 value (ties to even; infinite from 2^128 on), as a double.
double to_bfloat16(double x);
/// The nearest float16 value (ties to even; infinite from 65520 on), as a double.
double to_float16(double x);

/// sqrt(sum |z_n|^2), over all pairs or over those of a mask.
long double norm(const Vector& vector);
long double norm(const Vector& vector, const std::vector<char>& mask);

/// Standard normal distribution function.
double normal_cdf(double x);

}  // namespace rope::reference
