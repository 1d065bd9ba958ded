#pragma once

#include <memory>
#include <vector>

#include "spectral/simt/sweep_device.hpp"

namespace rope::spectral::simt {

/// Opens CUDA devices by their index. Throws DeviceError where one cannot be used, or this build has no CUDA
/// parts. adjacent_sweep_cuda.cu or adjacent_sweep_no_cuda.cpp stands behind it.
std::vector<std::unique_ptr<SweepDevice>> open_cuda_devices(const std::vector<int>& indexes);

}  // namespace rope::spectral::simt
