#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "profiler/hdf5_handle.hpp"

/// Reading of our own result files with nothing taken on trust: only hard links, only contiguous or modestly
/// chunked datasets inside the file, types and shapes as expected, no allocation by a number that the file's
/// size does not bear out. Every failure is a UserError that names file and HDF5 path.
namespace rope::detail {

/// An open file or group.
class CheckedGroup {
 public:
  /// Opens a file read-only; it may be open for writing in this process.
  static CheckedGroup open_file(const std::string& path);

  bool has(const std::string& name) const;
  CheckedGroup group(const std::string& name) const;
  std::vector<std::string> members() const;  ///< sorted by name

  std::string text(const char* attribute) const;
  std::int64_t integer(const char* attribute) const;
  /// All attributes, which must be text, in the order in which they were made.
  std::vector<std::pair<std::string, std::string>> texts() const;

  /// One-dimensional columns, whole. `rows` < 0: any length that the file can hold.
  std::vector<double> reals(const std::string& name, std::int64_t rows = -1) const;
  std::vector<std::int64_t> integers(const std::string& name, std::int64_t rows = -1) const;
  std::vector<std::string> strings(const std::string& name, std::int64_t rows = -1) const;
  /// A whole contiguous table [rows, columns].
  std::vector<double> table(const std::string& name, std::int64_t rows, std::int64_t columns) const;
  /// Rows [first, first + count) of a dataset whose whole shape is `shape`.
  std::vector<double> reals(const std::string& name, const std::vector<std::int64_t>& shape,
                            std::int64_t first, std::int64_t count) const;
  std::vector<std::int64_t> integers(const std::string& name, const std::vector<std::int64_t>& shape,
                                     std::int64_t first, std::int64_t count) const;
  std::vector<std::string> strings(const std::string& name, std::int64_t rows, std::int64_t first,
                                   std::int64_t count) const;

  /// "FILE: PATH/name: expected ..., found ...".
  [[noreturn]] void fail(const std::string& name, const std::string& expected,
                         const std::string& found) const;
  const std::string& file() const { return file_; }

 private:
  struct Dataset;
  CheckedGroup(Hdf5Handle id, std::string file, std::string path, std::uint64_t file_bytes)
      : id_(std::move(id)), file_(std::move(file)), path_(std::move(path)), file_bytes_(file_bytes) {}
  Dataset open(const std::string& name, H5T_class_t kind) const;
  void expect_hard_link(const std::string& name) const;
  std::string read_text(const Hdf5Handle& attribute, const std::string& name) const;
  template <class T>
  std::vector<T> numbers(const std::string& name, H5T_class_t kind, hid_t native,
                         const std::vector<std::int64_t>* shape, std::int64_t first,
                         std::int64_t count) const;

  Hdf5Handle id_;
  std::string file_, path_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace rope::detail
