#include "profiler/sweep_engine.hpp"

namespace rope {
namespace {

// Enough pairs for every multiprocessor at windows of 4096 distances.
constexpr std::size_t kDeviceLanes = 1 << 14;

}  // namespace

SweepEngine cpu_engine() { return {.sweep = spectral::sweep_cpu}; }

SweepEngine device_engine(const std::shared_ptr<spectral::DeviceSweep>& sweep) {
  SweepEngine engine;
  engine.lanes = kDeviceLanes;
  engine.waiting_threads = sweep->concurrent_calls();
  engine.sweep = [sweep](const spectral::SweepPlan& plan, const spectral::CoefficientBatch& batch,
                         const spectral::SweepRequest& request,
                         spectral::SweepResult& result) { sweep->sweep(plan, batch, request, result); };
  return engine;
}

OpenedBackend open_backend(std::string_view wanted, int device) {
  OpenedBackend opened{spectral::choose_backend(wanted, device), cpu_engine()};
  if (opened.choice.name != "cuda") return opened;
  try {
    opened.engine = device_engine(spectral::make_cuda_sweep(opened.choice.devices));
  } catch (const spectral::DeviceError& error) {
    if (wanted != "auto" || device > 0) throw;
    opened.choice = {"cpu", 0, {0}, std::string("cuda cannot be used: ") + error.what()};
  }
  return opened;
}

}  // namespace rope
