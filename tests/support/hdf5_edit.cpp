#include "support/hdf5_edit.hpp"

#include <algorithm>
#include <stdexcept>

#include "profiler/hdf5_handle.hpp"
#include "profiler/lzf.hpp"

namespace rope::test {
namespace {

hid_t must(hid_t id, const std::string& what) {
  if (id < 0) throw std::runtime_error("hdf5 edit: " + what + ": " + hdf5_error_text());
  return id;
}

Hdf5Handle space_of(const std::vector<hsize_t>& shape) {
  return Hdf5Handle(shape.empty() ? H5Screate(H5S_SCALAR)
                                  : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
}

}  // namespace

Hdf5Edit::Hdf5Edit(const std::string& path) {
  silence_hdf5();
  register_lzf();
  file_ = must(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), path);
}

Hdf5Edit::~Hdf5Edit() { H5Fclose(file_); }

void Hdf5Edit::raw_attribute(const std::string& object, const std::string& name, hid_t type,
                             const std::vector<hsize_t>& shape, const void* data, hid_t memory_type) {
  const Hdf5Handle owner(must(H5Oopen(file_, object.c_str(), H5P_DEFAULT), object));
  if (H5Aexists(owner.get(), name.c_str()) > 0) H5Adelete(owner.get(), name.c_str());
  const Hdf5Handle space = space_of(shape);
  const Hdf5Handle attribute(
      must(H5Acreate2(owner.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), name));
  if (data != nullptr) must(H5Awrite(attribute.get(), memory_type >= 0 ? memory_type : type, data), name);
}

void Hdf5Edit::text(const std::string& object, const std::string& name, const std::string& value) {
  const Hdf5Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  const char* data = value.c_str();
  raw_attribute(object, name, type.get(), {}, &data);
}

void Hdf5Edit::fixed_text(const std::string& object, const std::string& name, const std::string& value,
                          std::size_t bytes, H5T_str_t padding, bool one_element) {
  const Hdf5Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), bytes);
  H5Tset_strpad(type.get(), padding);
  std::string data = value;
  data.resize(bytes, padding == H5T_STR_SPACEPAD ? ' ' : '\0');
  raw_attribute(object, name, type.get(), one_element ? std::vector<hsize_t>{1} : std::vector<hsize_t>{},
                data.data());
}

void Hdf5Edit::number(const std::string& object, const std::string& name, double value, hid_t type,
                      const std::vector<hsize_t>& shape) {
  hsize_t count = 1;
  for (const hsize_t n : shape) count *= n;
  const std::vector<double> values(std::max<hsize_t>(count, 1), value);
  raw_attribute(object, name, type, shape, values.data(), H5T_NATIVE_DOUBLE);
}

void Hdf5Edit::drop_attribute(const std::string& object, const std::string& name) {
  must(H5Adelete_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT), name);
}

void Hdf5Edit::unlink(const std::string& path) { must(H5Ldelete(file_, path.c_str(), H5P_DEFAULT), path); }

void Hdf5Edit::hard_link(const std::string& from, const std::string& to) {
  must(H5Lcreate_hard(file_, from.c_str(), file_, to.c_str(), H5P_DEFAULT, H5P_DEFAULT), to);
}

void Hdf5Edit::soft_link(const std::string& target, const std::string& to) {
  must(H5Lcreate_soft(target.c_str(), file_, to.c_str(), H5P_DEFAULT, H5P_DEFAULT), to);
}

void Hdf5Edit::external_link(const std::string& file, const std::string& target, const std::string& to) {
  must(H5Lcreate_external(file.c_str(), target.c_str(), file_, to.c_str(), H5P_DEFAULT, H5P_DEFAULT), to);
}

void Hdf5Edit::group(const std::string& path) {
  const Hdf5Handle made(must(H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path));
}

void Hdf5Edit::dataset(const std::string& path, hid_t type, const std::vector<hsize_t>& shape, hid_t plist,
                       hid_t memory_type, const void* data) {
  if (H5Lexists(file_, path.c_str(), H5P_DEFAULT) > 0) unlink(path);
  const Hdf5Handle space = space_of(shape);
  const Hdf5Handle made(
      must(H5Dcreate2(file_, path.c_str(), type, space.get(), H5P_DEFAULT, plist, H5P_DEFAULT), path));
  if (data != nullptr) must(H5Dwrite(made.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), path);
}

void Hdf5Edit::integers(const std::string& path, const std::vector<hsize_t>& shape,
                        const std::vector<std::int64_t>& values, hid_t type) {
  dataset(path, type, shape, H5P_DEFAULT, H5T_NATIVE_INT64, values.data());
}

void Hdf5Edit::set(const std::string& path, const std::vector<hsize_t>& index, std::int64_t value) {
  const Hdf5Handle opened(must(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), path));
  const Hdf5Handle space(H5Dget_space(opened.get()));
  const std::vector<hsize_t> one(index.size(), 1);
  must(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, index.data(), nullptr, one.data(), nullptr), path);
  const Hdf5Handle memory = space_of(one);
  must(H5Dwrite(opened.get(), H5T_NATIVE_INT64, memory.get(), space.get(), H5P_DEFAULT, &value), path);
}

}  // namespace rope::test
