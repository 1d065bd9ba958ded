#pragma once

#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "profiler/phase_clock.hpp"

namespace rope {

/// SHA-256 of whole files, taken by a thread of its own while the files are being worked on. The destructor
/// breaks it off.
class BackgroundDigest {
 public:
  /// `clock`: where its CPU time is booked; may be null.
  BackgroundDigest(std::vector<std::string> paths, PhaseClock* clock);
  ~BackgroundDigest();
  BackgroundDigest(const BackgroundDigest&) = delete;
  BackgroundDigest& operator=(const BackgroundDigest&) = delete;

  /// One per path; waits for them. Throws UserError where a file could not be read. Call it once.
  std::vector<std::string> wait();

 private:
  void take(PhaseClock* clock);

  std::vector<std::string> paths_, digests_;
  std::atomic<bool> broken_off_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace rope
