#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace rope {

/// Owner of one HDF5 identifier of any kind (file, group, dataset, type, space, property list). Negative =
/// none.
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t id) : id_(id) {}
  ~Hdf5Handle() { close(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, hid_t{-1})) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    if (this != &other) {
      close();
      id_ = std::exchange(other.id_, hid_t{-1});
    }
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;

  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// Gives the identifier back; false when the library reports an error (a failed flush of a file, say).
  bool close() noexcept { return id_ < 0 || H5Idec_ref(std::exchange(id_, hid_t{-1})) >= 0; }

 private:
  hid_t id_ = -1;
};

/// Held by whoever calls HDF5 while other threads may: the library keeps state of its own, and Debian's build
/// of it is not thread-safe. The public functions of ActivationFile and ProfileWriter take it themselves, so
/// one thread may read while another writes; a single object still is for one thread at a time.
[[nodiscard]] std::unique_lock<std::recursive_mutex> lock_hdf5();

/// Stops HDF5 from printing its error stack. Call before the first HDF5 call of a reader or writer.
void silence_hdf5();

/// The innermost reasons on HDF5's error stack as one line, e.g. "unable to open file (file signature not
/// found)"; the stack is cleared. "no detail" when it is empty.
std::string hdf5_error_text();

}  // namespace rope
