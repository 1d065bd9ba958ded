#include "spectral/device_query.hpp"

namespace rope::spectral {

DeviceQuery query_cuda_devices() {
  DeviceQuery query;
  query.reason =
      "this build has no CUDA parts (configure with -DROPE_PROFILER_CUDA=ON where nvcc is installed)";
  return query;
}

}  // namespace rope::spectral
