#include "spectral/sweep_basis.hpp"

#include <numbers>
#include <stdexcept>

#include "spectral/simd_targets.hpp"

namespace rope::spectral {

SweepBasis::SweepBasis(std::span<const double> omega) : impl_(std::make_unique<Impl>()) {
  if (omega.empty() || omega.size() > 512) throw std::logic_error("SweepBasis: h outside 1 ... 512");
  for (double w : omega) {
    if (!(w > 0 && w <= std::numbers::pi)) throw std::logic_error("SweepBasis: frequency outside (0, pi]");
  }
  obey_simd_environment();
  impl_->omega.assign(omega.begin(), omega.end());
}

SweepBasis::~SweepBasis() = default;
std::span<const double> SweepBasis::omega() const { return impl_->omega; }

SweepPlan::SweepPlan(std::shared_ptr<const SweepBasis> basis, std::int64_t window)
    : basis_(std::move(basis)), window_(window) {
  if (basis_ == nullptr) throw std::logic_error("SweepPlan: no basis");
  if (window < 2 || window > std::int64_t{1} << 24)
    throw std::logic_error("SweepPlan: window outside 2 ... 2^24");
}

SweepPlan::SweepPlan(std::span<const double> omega, std::int64_t window)
    : SweepPlan(std::make_shared<const SweepBasis>(omega), window) {}

}  // namespace rope::spectral
