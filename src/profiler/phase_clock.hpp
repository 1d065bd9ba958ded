#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace rope {

/// What a thread of a run can be busy with.
enum class Phase : int {
  kOther,
  kReading,       ///< positions and vectors from the caches
  kDecoding,      ///< of compressed vectors
  kCoefficients,  ///< conversion, un-rotation, coefficients, norms, usage, margins
  kPlans,         ///< sweep plans and factors of moments, once per (grid, window)
  kMoments,
  kSweep,
  kWriting,  ///< the profile
  kDigests,
  kCount
};
const char* phase_name(Phase phase);

/// CPU time of the threads of a run, by phase. For people who wait; no result depends on it.
class PhaseClock {
 public:
  void add(Phase phase, std::int64_t nanoseconds) {
    nanoseconds_[static_cast<std::size_t>(phase)].fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  double seconds(Phase phase) const {
    return 1e-9 * static_cast<double>(nanoseconds_[static_cast<std::size_t>(phase)].load());
  }

 private:
  std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(Phase::kCount)> nanoseconds_{};
};

/// While it lives, the CPU time of the calling thread goes to `clock` (null: nowhere, at no cost).
class PhaseThread {
 public:
  explicit PhaseThread(PhaseClock* clock, Phase phase = Phase::kOther);
  ~PhaseThread();
  PhaseThread(const PhaseThread&) = delete;
  PhaseThread& operator=(const PhaseThread&) = delete;

 private:
  PhaseClock* outer_;
  Phase outer_phase_;
};

/// The calling thread is in `phase` until the scope ends; scopes nest, an inner one takes its time from the
/// outer. Without a clock it does nothing. The thread's clock is read twice (a system call): for work of a
/// batch, not of a pair.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase outer_;
};

}  // namespace rope
