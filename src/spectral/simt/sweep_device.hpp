#pragma once

#include <cstddef>
#include <string>

#include "spectral/backend.hpp"
#include "spectral/simt/fold_kernel.hpp"
#include "spectral/simt/sweep_kernel.hpp"

namespace rope::spectral::simt {

/// There is not enough memory for what was asked; less may go through.
class OutOfDeviceMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// What the sweep needs of one device. adjacent_sweep_cuda.cu implements it; tests have one that runs the
/// kernels on the host and fails on demand. Several threads may call, but a stream is used by one at a time.
/// Every function but the releases may throw OutOfDeviceMemory, or DeviceError where the device is lost.
class SweepDevice {
 public:
  static constexpr int kStreams = 2;  ///< one copies while the other computes

  virtual ~SweepDevice() = default;
  SweepDevice() = default;
  SweepDevice(const SweepDevice&) = delete;
  SweepDevice& operator=(const SweepDevice&) = delete;

  virtual std::string name() const = 0;
  /// Most shared memory that a block of a kernel may have.
  virtual std::size_t shared_memory() const = 0;

  virtual void* allocate(std::size_t bytes) = 0;         ///< on the device
  virtual void* allocate_pinned(std::size_t bytes) = 0;  ///< on the host
  virtual void release(void* memory) noexcept = 0;
  virtual void release_pinned(void* memory) noexcept = 0;

  // In the order of their stream, and not necessarily before they return.
  virtual void upload(int stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(int stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void launch(int stream, int groups, int chunks, const SweepKernel<false>::Args& args) = 0;
  virtual void launch(int stream, int groups, int chunks, const SweepKernel<true>::Args& args) = 0;
  virtual void launch(int stream, int groups, const FoldKernel::Args& args) = 0;
  /// Waits for everything that the stream was given.
  virtual void synchronize(int stream) = 0;
};

}  // namespace rope::spectral::simt
