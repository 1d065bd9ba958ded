#pragma once

#include <memory>
#include <vector>

#include "spectral/adjacent_sweep.hpp"

namespace rope::spectral {

namespace simt {
class SweepDevice;
}

/// The sweep on devices (src/spectral/README.md). They compute in float32; what may then be further than 1e-5
/// from float64 is mended on the CPU (sweep_lanes.hpp), where short windows, softcaps, aliasing and logit
/// scales are done altogether, and grids for which a device has too little shared memory.
class DeviceSweep {
 public:
  explicit DeviceSweep(std::vector<std::unique_ptr<simt::SweepDevice>> devices);
  ~DeviceSweep();

  /// As sweep_cpu; may be called by several threads at once. Throws DeviceError where a device was lost or
  /// has no memory for the smallest block; then `result` holds nothing.
  void sweep(const SweepPlan& plan, const CoefficientBatch& batch, const SweepRequest& request,
             SweepResult& result);

  /// Calls that can be on the devices at the same time.
  int concurrent_calls() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// On the CUDA devices with these indexes, as list_backends() numbers them. Throws DeviceError.
std::unique_ptr<DeviceSweep> make_cuda_sweep(const std::vector<int>& devices);

}  // namespace rope::spectral
