#pragma once

#include <string>
#include <vector>

#include "spectral/backend.hpp"

namespace rope::spectral {

/// What the CUDA runtime says of this machine. Free of CUDA headers; device_query_cuda.cu or
/// device_query_no_cuda.cpp stands behind it.
struct DeviceQuery {
  bool built = false;                ///< this build has CUDA parts
  std::string reason;                ///< why no device can be used; empty where `devices` holds one
  std::vector<DeviceInfo> devices;   ///< memory and compute capability of each
  std::vector<std::string> details;  ///< "runtime: 13.0", "driver: 13.0"
};

/// Never throws for a missing driver or device.
DeviceQuery query_cuda_devices();

}  // namespace rope::spectral
