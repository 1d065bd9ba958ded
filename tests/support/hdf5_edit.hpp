#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rope::test {

/// Opens an existing HDF5 file to break it in one place, or to write an odd but legal form. Throws
/// std::runtime_error where HDF5 refuses. Closed by the destructor.
class Hdf5Edit {
 public:
  explicit Hdf5Edit(const std::string& path);
  ~Hdf5Edit();
  Hdf5Edit(const Hdf5Edit&) = delete;
  Hdf5Edit& operator=(const Hdf5Edit&) = delete;
  hid_t file() const { return file_; }

  // Attributes: replace or add. An empty shape is a scalar.
  void text(const std::string& object, const std::string& name, const std::string& value);
  /// Fixed length; `padding` H5T_STR_NULLTERM, NULLPAD or SPACEPAD.
  void fixed_text(const std::string& object, const std::string& name, const std::string& value,
                  std::size_t bytes, H5T_str_t padding = H5T_STR_NULLPAD, bool one_element = false);
  void number(const std::string& object, const std::string& name, double value, hid_t type,
              const std::vector<hsize_t>& shape = {});
  void raw_attribute(const std::string& object, const std::string& name, hid_t type,
                     const std::vector<hsize_t>& shape, const void* data,
                     hid_t memory_type = H5I_INVALID_HID);
  void drop_attribute(const std::string& object, const std::string& name);

  // Links and objects.
  void unlink(const std::string& path);
  void hard_link(const std::string& from, const std::string& to);
  void soft_link(const std::string& target, const std::string& to);
  void external_link(const std::string& file, const std::string& target, const std::string& to);
  void group(const std::string& path);
  /// Replaces or makes a dataset. `plist` H5P_DEFAULT or a creation list; `data` null: nothing written.
  void dataset(const std::string& path, hid_t type, const std::vector<hsize_t>& shape,
               hid_t plist = H5P_DEFAULT, hid_t memory_type = H5I_INVALID_HID, const void* data = nullptr);
  void integers(const std::string& path, const std::vector<hsize_t>& shape,
                const std::vector<std::int64_t>& values, hid_t type = H5T_STD_I32LE);
  /// Overwrites one element of an integer dataset.
  void set(const std::string& path, const std::vector<hsize_t>& index, std::int64_t value);

 private:
  hid_t file_ = -1;
};

}  // namespace rope::test
