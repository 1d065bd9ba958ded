#include "spectral/backend.hpp"

#include <omp.h>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/device_query.hpp"

namespace rope::spectral {
namespace {

BackendInfo describe_cpu() {
  BackendInfo cpu;
  cpu.name = "cpu";
  cpu.usable = true;
  DeviceInfo device;
  device.name = "CPU";
  device.capability = simd_in_use();
  cpu.devices.push_back(device);
  std::string available;
  for (const std::string& target : simd_available()) available += (available.empty() ? "" : " ") + target;
  cpu.details = {"simd: " + device.capability, "simd available: " + available,
                 "threads: " + std::to_string(omp_get_max_threads())};
  return cpu;
}

BackendInfo describe_cuda() {
  DeviceQuery query = query_cuda_devices();
  BackendInfo cuda;
  cuda.name = "cuda";
  cuda.usable = query.reason.empty();
  cuda.reason = std::move(query.reason);
  cuda.devices = std::move(query.devices);
  cuda.details = std::move(query.details);
  return cuda;
}

}  // namespace

std::vector<BackendInfo> list_backends() { return {describe_cpu(), describe_cuda()}; }

BackendChoice choose_backend(std::string_view wanted, int device) {
  if (wanted != "auto" && wanted != "cpu" && wanted != "cuda")
    throw std::invalid_argument("unknown backend \"" + std::string(wanted) +
                                "\"; valid are auto, cpu and cuda");
  if (wanted == "cpu") {
    if (device > 0) throw DeviceError("the cpu backend has one device, 0; found " + std::to_string(device));
    return {"cpu", 0, {0}, "asked for"};
  }
  const BackendInfo cuda = describe_cuda();
  if (cuda.usable) {
    BackendChoice choice{"cuda", 0, {}, wanted == "auto" ? "a CUDA device is usable" : "asked for"};
    for (const DeviceInfo& info : cuda.devices) {
      if (info.usable && (device < 0 || device == info.index)) choice.devices.push_back(info.index);
    }
    if (choice.devices.empty())
      throw DeviceError("CUDA device " + std::to_string(device) + " is not there or not usable");
    choice.device = choice.devices.front();
    return choice;
  }
  if (wanted == "cuda") throw DeviceError("the cuda backend cannot be used: " + cuda.reason);
  if (device > 0) throw DeviceError("device " + std::to_string(device) + " cannot be used: " + cuda.reason);
  return {"cpu", 0, {0}, "cuda cannot be used: " + cuda.reason};
}

}  // namespace rope::spectral
