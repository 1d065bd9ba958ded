#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/hdf5_read.hpp"

namespace rope {

/// One group of a profile: attributes and columns that have to be there, of the type and shape that the
/// format says. Outlived by `source`. Every failure is a UserError as of Hdf5Source.
class ProfileGroup {
 public:
  ProfileGroup(const Hdf5Source& source, Hdf5Group group) : source_(source), group_(std::move(group)) {}

  const Hdf5Group& get() const { return group_; }
  bool has(const std::string& name) const { return source_.has(group_, name); }
  ProfileGroup group(const std::string& name) const { return {source_, source_.group(group_, name)}; }
  std::vector<std::string> members() const { return source_.names(group_); }

  std::string text(const std::string& attribute) const;
  std::int64_t integer(const std::string& attribute) const;

  /// Columns [rows], whole. `rows` < 0: any length that the file can hold.
  std::vector<double> reals(const std::string& name, std::int64_t rows = -1) const;
  std::vector<std::int64_t> integers(const std::string& name, std::int64_t rows = -1) const;
  std::vector<std::string> texts(const std::string& name, std::int64_t rows = -1) const;
  /// A whole table [rows, columns], row-major.
  std::vector<double> table(const std::string& name, std::int64_t rows, std::int64_t columns) const;

  /// Rows [first, first + count) of a column or table whose whole shape is `shape`; the caller sees to it
  /// that they lie inside and are not too many for memory.
  std::vector<double> reals(const std::string& name, const std::vector<std::int64_t>& shape,
                            std::int64_t first, std::int64_t count) const;
  std::vector<std::int64_t> integers(const std::string& name, const std::vector<std::int64_t>& shape,
                                     std::int64_t first, std::int64_t count) const;
  std::vector<std::string> texts(const std::string& name, const std::vector<std::int64_t>& shape,
                                 std::int64_t first, std::int64_t count) const;

  /// Throws "FILE: PATH/name: expected ..., found ...".
  [[noreturn]] void fail(const std::string& name, const std::string& expected,
                         const std::string& found) const;

 private:
  void require_column(const Hdf5Dataset& set, std::int64_t rows) const;

  const Hdf5Source& source_;
  Hdf5Group group_;
};

}  // namespace rope
