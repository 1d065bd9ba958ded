#include "profiler/phase_clock.hpp"

#include <ctime>
#include <iterator>

namespace rope {
namespace {

struct Here {
  PhaseClock* clock = nullptr;
  Phase phase = Phase::kOther;
  std::int64_t since = 0;
};
thread_local Here here;

std::int64_t thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

/// Books the time so far and goes on in `next`.
void change(Phase next) {
  if (here.clock != nullptr) {
    const std::int64_t now = thread_time();
    here.clock->add(here.phase, now - here.since);
    here.since = now;
  }
  here.phase = next;
}

}  // namespace

const char* phase_name(Phase phase) {
  static constexpr const char* kNames[] = {"other",   "reading", "decoding", "coefficients", "plans",
                                           "moments", "sweep",   "writing",  "digests"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Phase::kCount));
  return kNames[static_cast<std::size_t>(phase)];
}

PhaseThread::PhaseThread(PhaseClock* clock, Phase phase) : outer_(here.clock), outer_phase_(here.phase) {
  change(phase);
  here.clock = clock;
  if (clock != nullptr) here.since = thread_time();
}

PhaseThread::~PhaseThread() {
  change(outer_phase_);
  here.clock = outer_;
  if (outer_ != nullptr) here.since = thread_time();
}

PhaseScope::PhaseScope(Phase phase) : outer_(here.phase) { change(phase); }
PhaseScope::~PhaseScope() { change(outer_); }

}  // namespace rope
