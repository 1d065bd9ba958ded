#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/compressed_plan.hpp"
#include "spectral/simt/sweep_device.hpp"

namespace rope::spectral::simt {

/// What the devices are asked for, and what they need to know of each lane.
struct RunnerInput {
  const CompressedPlan* plan = nullptr;
  std::span<const double> omega;  ///< of the batch
  std::int64_t window = 2;
  const CoefficientBatch* batch = nullptr;
  std::span<const double> scale;  ///< [n_pairs] powers of two
  std::span<const float> doubt;   ///< [n_pairs]
  std::span<const char> skip;     ///< [n_pairs] lanes whose results do not count (they are taken as zero)
  bool differences = false, weights = false, signs = false;
};

/// Runs the sweep on one or several devices. Every device has two slots, each with a stream and memory of its
/// own; all slots wait in one queue, and whoever has a block of lanes to sweep takes the next free one. So
/// copies and kernels overlap, and devices share the work by their speed. Out of memory halves a device's
/// blocks and goes on. A lane's bytes depend on neither blocks nor devices.
class SweepRunner {
 public:
  explicit SweepRunner(std::vector<std::unique_ptr<SweepDevice>> devices);
  ~SweepRunner();

  /// Empty where the devices can take the plan, else why not.
  std::string refusal(const CompressedPlan& plan) const;

  /// Fills mean_response and response_max (differences), effective_length (weights), reversals (signs). May
  /// be called by several threads at once. Throws DeviceError; then `result` holds nothing.
  void run(const RunnerInput& input, SweepResult& result);

  int slots() const { return static_cast<int>(slots_.size()); }
  /// Lanes of one block, at most; for tests.
  void limit_block(int pairs) { most_pairs_ = pairs; }

 private:
  struct Device;
  struct Slot;
  class Call;
  Slot* take_slot(bool wait);
  void return_slot(Slot* slot);

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Slot*> free_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int most_pairs_ = 1 << 14;
};

}  // namespace rope::spectral::simt
