#include <algorithm>
#include <iterator>
#include <numbers>
#include <stdexcept>

#include "spectral/normal_law.hpp"
#include "spectral/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/normal_law_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway:
#include "spectral/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

void ChancesBelowZero(const double* mean, const double* variance, std::size_t count, double* chance) {
  const hn::ScalableTag<double> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d), half = hn::Set(d, 0.5), root = hn::Set(d, 0.5 * std::numbers::sqrt2);
  HWY_ALIGN double last[2][HWY_MAX_BYTES / sizeof(double)] = {};
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t here = std::min(lanes, count - i);
    const double *from_mean = mean + i, *from_variance = variance + i;
    double* to = chance + i;
    if (here < lanes) {
      std::copy_n(from_mean, here, last[0]);
      std::copy_n(from_variance, here, last[1]);
      from_mean = to = last[0];
      from_variance = last[1];
    }
    const auto mu = hn::LoadU(d, from_mean), sigma = hn::Sqrt(hn::LoadU(d, from_variance));
    const auto wide = hn::Gt(sigma, zero);
    const auto certain = hn::IfThenElseZero(hn::Lt(mu, zero), hn::Set(d, 1.0));
    const auto x = hn::Mul(hn::Div(mu, sigma), root);
    hn::StoreU(hn::IfThenElse(wide, hn::Mul(half, Erfc(d, x)), certain), d, to);
    if (here < lanes) std::copy_n(last[0], here, chance + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(ChancesBelowZero);

void chances_below_zero(std::span<const double> mean, std::span<const double> variance,
                        std::span<double> chance) {
  if (variance.size() < mean.size() || chance.size() < mean.size())
    throw std::logic_error("chances_below_zero: shapes");
  obey_simd_environment();
  HWY_DYNAMIC_DISPATCH(ChancesBelowZero)(mean.data(), variance.data(), mean.size(), chance.data());
}

}  // namespace rope::spectral
#endif  // HWY_ONCE
