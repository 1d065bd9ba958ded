#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profiler/hdf5_handle.hpp"

/// Small pieces of an HDF5 file whose bytes depend on its content alone: no time stamps, little-endian types,
/// text as fixed-length UTF-8. Every failure is a UserError that names the file.
namespace rope::detail {

/// Throws UserError "FILE: cannot write: ..." when `id` (or a status) is negative; returns it otherwise.
hid_t written(hid_t id, const std::string& file);

Hdf5Handle create_file(const std::string& path, const std::string& shown);
/// `ordered`: attributes keep the order in which they were made.
Hdf5Handle create_group(hid_t parent, const std::string& name, const std::string& file, bool ordered = false);

void put_attribute(hid_t object, const char* name, const std::string& value, const std::string& file);
void put_attribute(hid_t object, const char* name, std::int64_t value, const std::string& file);
void put_attribute(hid_t object, const char* name, double value, const std::string& file);

/// How a dataset is laid out: contiguous, or chunks of `chunk_rows` rows, shuffled and deflated.
struct Layout {
  std::vector<hsize_t> shape;
  hsize_t chunk_rows = 0;  ///< 0 = contiguous
};
/// Fixed-length UTF-8 text of `width` bytes, padded with zeros.
Hdf5Handle text_type(std::size_t width);
Hdf5Handle create_dataset(hid_t group, const char* name, hid_t type, const Layout& layout, const void* fill,
                          const std::string& file);
/// A whole chunk past the dataset's filters. bytes: little-endian.
void write_chunk_as_is(hid_t dataset, const std::vector<hsize_t>& origin, std::span<const std::byte> bytes,
                       const std::string& file);

/// Whole contiguous datasets with their unit and meaning.
void put_column(hid_t group, const char* name, std::span<const double> values, const char* unit,
                const char* meaning, const std::string& file, std::vector<hsize_t> shape = {});
void put_column(hid_t group, const char* name, std::span<const std::int64_t> values, const char* unit,
                const char* meaning, const std::string& file);
void put_column(hid_t group, const char* name, std::span<const char> values, const char* meaning,
                const std::string& file);
void put_column(hid_t group, const char* name, const std::vector<std::string>& values, const char* meaning,
                const std::string& file, hsize_t chunk_rows = 0);

}  // namespace rope::detail
