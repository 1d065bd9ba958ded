#include <cuda_runtime_api.h>

#include "spectral/device_query.hpp"

namespace rope::spectral {
namespace {

std::string version(int number) {  // 13000 -> "13.0"
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

DeviceInfo describe(int index) {
  DeviceInfo info;
  info.index = index;
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status != cudaSuccess) {
    info.usable = false;
    info.reason = std::string("cudaGetDeviceProperties: ") + cudaGetErrorString(status);
    return info;
  }
  info.name = properties.name;
  info.memory_bytes = static_cast<long long>(properties.totalGlobalMem);
  info.capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  if (properties.major < 8) {
    info.usable = false;
    info.reason = "compute capability " + info.capability + ", this build needs 8.0 or later";
  }
  return info;
}

}  // namespace

DeviceQuery query_cuda_devices() {
  DeviceQuery query;
  query.built = true;
  int number = 0;
  if (cudaRuntimeGetVersion(&number) == cudaSuccess) query.details.push_back("runtime: " + version(number));
  // 0 stands for "no driver".
  if (cudaDriverGetVersion(&number) == cudaSuccess && number > 0)
    query.details.push_back("driver: " + version(number));
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    query.reason = std::string("cudaGetDeviceCount: ") + cudaGetErrorString(status);
    static_cast<void>(cudaGetLastError());  // leave no error behind for a later call
    return query;
  }
  for (int index = 0; index < count; ++index) query.devices.push_back(describe(index));
  bool any = false;
  for (const DeviceInfo& device : query.devices) any = any || device.usable;
  if (query.devices.empty()) query.reason = "no CUDA device found";
  if (!query.devices.empty() && !any)
    query.reason = "no CUDA device is usable: " + query.devices.front().reason;
  return query;
}

}  // namespace rope::spectral
