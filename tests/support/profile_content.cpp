#include "support/profile_content.hpp"

#include <hdf5.h>

#include <stdexcept>
#include <vector>

namespace rope::test {
namespace {

std::string bytes_of(hid_t type, hid_t space, const std::vector<char>& raw) {
  std::string text;
  if (H5Tis_variable_str(type) > 0) {
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    const char* const* strings = reinterpret_cast<const char* const*>(raw.data());
    for (hssize_t i = 0; i < count; ++i) text += std::string(strings[i] ? strings[i] : "(null)") + '\0';
  } else {
    text.assign(raw.data(), raw.size());
  }
  return text;
}

std::string shape_of(hid_t space) {
  hsize_t dims[H5S_MAX_RANK];
  const int rank = H5Sget_simple_extent_dims(space, dims, nullptr);
  std::string text = "[";
  for (int i = 0; i < rank; ++i) text += std::to_string(dims[i]) + ' ';
  return text + "]";
}

template <class Read>
std::string values(hid_t type, hid_t space, Read read) {
  std::vector<char> raw(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type));
  if (!raw.empty() && read(type, raw.data()) < 0)
    throw std::runtime_error("cannot read an object of the profile");
  return shape_of(space) + bytes_of(type, space, raw);
}

herr_t add_attribute(hid_t object, const char* name, const H5A_info_t*, void* into) {
  const hid_t attribute = H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(attribute),
              space = H5Aget_space(attribute);
  *static_cast<std::string*>(into) +=
      std::string("\n@") + name + "=" +
      values(type, space, [&](hid_t t, void* to) { return H5Aread(attribute, t, to); });
  H5Sclose(space);
  H5Tclose(type);
  H5Aclose(attribute);
  return 0;
}

herr_t add_object(hid_t file, const char* name, const H5O_info_t* info, void* into) {
  const std::string path = name;
  if (path == "inputs" || path.rfind("inputs/", 0) == 0) return 0;
  std::string text;
  const hid_t object = H5Oopen(file, name, H5P_DEFAULT);
  if (info->type == H5O_TYPE_DATASET) {
    const hid_t type = H5Dget_type(object), space = H5Dget_space(object);
    text = values(type, space,
                  [&](hid_t t, void* to) { return H5Dread(object, t, H5S_ALL, H5S_ALL, H5P_DEFAULT, to); });
    H5Sclose(space);
    H5Tclose(type);
  }
  hsize_t at = 0;
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, add_attribute, &text);
  H5Oclose(object);
  (*static_cast<ProfileContent*>(into))[path] = text;
  return 0;
}

}  // namespace

ProfileContent profile_content(const std::string& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) throw std::runtime_error("cannot open " + path);
  ProfileContent content;
  const herr_t visited = H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add_object, &content, H5O_INFO_BASIC);
  H5Fclose(file);
  if (visited < 0 || content.size() < 5) throw std::runtime_error("cannot walk through " + path);
  return content;
}

}  // namespace rope::test
