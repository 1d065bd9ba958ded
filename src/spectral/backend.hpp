#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rope::spectral {

/// A device or backend that was asked for cannot be used, was lost, or ran out of memory. `what()` is one
/// sentence: the call or place, and the device library's own words where there are any. Exit code 4.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One device of a backend.
struct DeviceInfo {
  int index = 0;
  std::string name;
  long long memory_bytes = 0;  ///< 0 = not asked (CPU)
  std::string capability;      ///< CUDA: compute capability, "9.0"; CPU: the SIMD target in use
  bool usable = true;
  std::string reason;  ///< why not, empty where usable
};

/// A backend, whether this build and machine offer it, and if not, why.
struct BackendInfo {
  std::string name;  ///< "cpu" or "cuda"
  bool usable = false;
  std::string reason;               ///< why not, empty where usable
  std::vector<DeviceInfo> devices;  ///< what was found, usable or not
  std::vector<std::string>
      details;  ///< facts as "key: value" (SIMD targets, threads, driver and runtime versions)
};

/// All backends, "cpu" first. Never throws for a missing device. Throws std::invalid_argument where
/// ROPE_PROFILER_SIMD names no target of this machine.
std::vector<BackendInfo> list_backends();

/// What `--backend` and `--device` lead to.
struct BackendChoice {
  std::string name;          ///< "cpu" or "cuda"
  int device = 0;            ///< the first of them
  std::vector<int> devices;  ///< all that the work is shared among
  std::string reason;        ///< one sentence: why this one, for logs and results
};

/// `wanted`: "auto", "cpu" or "cuda". device: index from list_backends, -1 = every usable one.
/// auto takes cuda where usable, else cpu, and says why. Throws DeviceError where `cuda` or a device was
/// asked for and cannot be had, std::invalid_argument for another name.
BackendChoice choose_backend(std::string_view wanted, int device = -1);

}  // namespace rope::spectral
