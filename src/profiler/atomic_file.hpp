#pragma once

#include <string>
#include <string_view>

namespace rope {

/// An output that appears whole or not at all: written aside in the same folder, synced, renamed.
/// The destructor removes what was not committed; so does Ctrl-C (remove_partial_outputs_on_signals).
class AtomicFile {
 public:
  /// Fails at once (UserError, exit 2 or 3) when `path` exists and `force` is false, is a folder, or its
  /// folder cannot be written: before the long work, not after it. `path` empty: a scratch file in the
  /// temporary folder.
  AtomicFile(const std::string& path, bool force);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  const std::string& partial_path() const { return partial_; }  ///< write here
  void write(std::string_view bytes);                           ///< or append through this
  void commit();                                                ///< sync, rename

 private:
  std::string path_, partial_;
  bool force_ = false, done_ = false;
};

/// SIGINT, SIGTERM, SIGHUP: remove every partial output, then die by the same signal.
void remove_partial_outputs_on_signals();

}  // namespace rope
