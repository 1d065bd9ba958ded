#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rope {

/// An output that appears whole or not at all: written aside in the same folder, synced, renamed.
/// The destructor removes what was not committed; so does Ctrl-C (remove_partial_outputs_on_signals).
/// A symbolic link is followed: its target is replaced. Where `path` names something that cannot be renamed
/// over (a device, a pipe, /dev/stdout), the bytes are gathered in a scratch file and copied on commit().
class AtomicFile {
 public:
  /// Fails at once (UserError) when `path` exists and `force` is false, is a folder (both exit 2), or its
  /// folder cannot be written (exit 3): before the long work, not after it. `path` empty: a scratch file in
  /// TMPDIR (else /tmp) that vanishes with the object; its commit() does nothing.
  AtomicFile(const std::string& path, bool force);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  const std::string& partial_path() const { return partial_; }  ///< write here
  void write(std::string_view bytes);                           ///< or append through this
  /// Sync, rename. Without `force` a file that appeared meanwhile is never overwritten (UserError).
  void commit();

 private:
  void open_aside(const std::string& folder, const std::string& stem);
  void copy_to_special();
  void rename_into_place();
  void discard() noexcept;

  std::string path_, partial_;  // path_: after following links; empty for scratch
  std::string shown_;           // as the user wrote it, for messages
  bool force_ = false, special_ = false, done_ = false;
  int fd_ = -1, slot_ = -1;
};

/// Refuses (UserError, exit 2) an output that is one of the inputs, by whatever name: a capture must not be
/// lost to a slip of --force. Empty names are passed over.
void require_output_is_no_input(const std::string& output, const std::vector<std::string>& inputs);

/// SIGINT, SIGTERM, SIGHUP: remove every partial output, then die by the same signal. A signal that the
/// program was started to ignore (nohup) stays ignored.
void remove_partial_outputs_on_signals();

}  // namespace rope
