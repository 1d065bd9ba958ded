#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/backend.hpp"
#include "spectral/device_sweep.hpp"

namespace rope {

/// Where sweeps run: the one way from the profiler to a backend.
struct SweepEngine {
  /// As spectral::sweep_cpu. Called by several threads at once, each with a batch of its own; a lane's result
  /// must not depend on its batch.
  std::function<void(const spectral::SweepPlan&, const spectral::CoefficientBatch&,
                     const spectral::SweepRequest&, spectral::SweepResult&)>
      sweep;
  /// Lanes that a batch should have: whole groups of the kernel, many enough to hide what a call costs. Less
  /// where memory is short or windows are long.
  std::size_t lanes = 960;
  /// Threads that a call keeps waiting rather than computing (a device computes meanwhile): so many more
  /// workers are started, and that many batches can be on the device.
  int waiting_threads = 0;
};

SweepEngine cpu_engine();
SweepEngine device_engine(const std::shared_ptr<spectral::DeviceSweep>& sweep);

/// The backend that `--backend` and `--device` lead to, ready for work.
struct OpenedBackend {
  spectral::BackendChoice choice;
  SweepEngine engine;
};

/// As spectral::choose_backend, and opens the devices. Where `auto` cannot open them it takes the CPU and
/// says why; later failures are DeviceErrors.
OpenedBackend open_backend(std::string_view wanted, int device);

}  // namespace rope
