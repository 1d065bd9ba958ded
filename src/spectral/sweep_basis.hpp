#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/compressed_plan.hpp"
#include "spectral/mirrored_plan.hpp"

namespace rope::spectral {

/// The tables behind a SweepBasis.
struct SweepBasis::Impl {
  std::vector<double> omega;

  const CompressedPlan& compressed() const {
    std::call_once(compressed_once_, [this] { compressed_ = std::make_unique<CompressedPlan>(omega); });
    return *compressed_;
  }
  const MirroredPlan& mirrored() const {
    std::call_once(mirrored_once_, [this] { mirrored_ = std::make_unique<MirroredPlan>(omega); });
    return *mirrored_;
  }

 private:
  mutable std::once_flag compressed_once_, mirrored_once_;
  mutable std::unique_ptr<CompressedPlan> compressed_;
  mutable std::unique_ptr<MirroredPlan> mirrored_;
};

}  // namespace rope::spectral
