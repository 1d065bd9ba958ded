#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "spectral/simt/sweep_device.hpp"

// For .cu files only.

namespace rope::spectral::simt {

/// Throws OutOfDeviceMemory or DeviceError where a call of the CUDA runtime failed: device, call, its words.
inline void cuda_check(cudaError_t status, const char* call, int device) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // an error that can be cleared is not left behind for a later call
  const std::string text =
      "CUDA device " + std::to_string(device) + ": " + call + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) throw OutOfDeviceMemory(text);
  throw DeviceError(text);
}

/// A stream that belongs to the device that is current when it is made.
class CudaStream {
 public:
  explicit CudaStream(int device) {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate", device);
  }
  ~CudaStream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace rope::spectral::simt
