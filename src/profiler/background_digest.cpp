#include "profiler/background_digest.hpp"

#include "profiler/digest.hpp"

namespace rope {

BackgroundDigest::BackgroundDigest(std::vector<std::string> paths, PhaseClock* clock)
    : paths_(std::move(paths)), thread_([this, clock] { take(clock); }) {}

BackgroundDigest::~BackgroundDigest() {
  broken_off_ = true;
  if (thread_.joinable()) thread_.join();
}

void BackgroundDigest::take(PhaseClock* clock) {
  const PhaseThread booked(clock, Phase::kDigests);
  try {
    for (const std::string& path : paths_) digests_.push_back(sha256_of_file(path, &broken_off_));
  } catch (...) {
    failure_ = std::current_exception();
  }
}

std::vector<std::string> BackgroundDigest::wait() {
  thread_.join();
  if (failure_) std::rethrow_exception(failure_);
  return std::move(digests_);
}

}  // namespace rope
