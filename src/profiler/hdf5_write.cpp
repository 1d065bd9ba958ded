#include "profiler/hdf5_write.hpp"

#include <algorithm>

#include "profiler/error.hpp"

namespace rope::detail {
namespace {

Hdf5Handle scalar_space() { return Hdf5Handle(H5Screate(H5S_SCALAR)); }

void put_scalar(hid_t object, const char* name, hid_t stored, hid_t native, const void* value,
                const std::string& file) {
  const Hdf5Handle space = scalar_space();
  const Hdf5Handle attribute(
      written(H5Acreate2(object, name, stored, space.get(), H5P_DEFAULT, H5P_DEFAULT), file));
  written(H5Awrite(attribute.get(), native, value), file);
}

void describe(hid_t dataset, const char* unit, const char* meaning, const std::string& file) {
  if (unit) put_attribute(dataset, "units", std::string(unit), file);
  put_attribute(dataset, "meaning", std::string(meaning), file);
}

void put_whole(hid_t group, const char* name, hid_t stored, hid_t native, const void* values,
               const Layout& layout, const char* unit, const char* meaning, const std::string& file) {
  const Hdf5Handle dataset = create_dataset(group, name, stored, layout, nullptr, file);
  describe(dataset.get(), unit, meaning, file);
  const bool empty = std::find(layout.shape.begin(), layout.shape.end(), 0u) != layout.shape.end();
  if (!empty) written(H5Dwrite(dataset.get(), native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), file);
}

}  // namespace

hid_t written(hid_t id, const std::string& file) {
  if (id >= 0) return id;
  throw UserError(file + ": cannot write: " + hdf5_error_text(), "is the disk full?");
}

Hdf5Handle create_file(const std::string& path, const std::string& shown) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS));
  // One fixed format version: the bytes must not follow the library's.
  written(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), shown);
  const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE));
  written(H5Pset_obj_track_times(creation.get(), false), shown);
  return Hdf5Handle(written(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), shown));
}

Hdf5Handle create_group(hid_t parent, const std::string& name, const std::string& file, bool ordered) {
  const Hdf5Handle link(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_char_encoding(link.get(), H5T_CSET_UTF8);
  const Hdf5Handle creation(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  if (ordered) H5Pset_attr_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  return Hdf5Handle(written(H5Gcreate2(parent, name.c_str(), link.get(), creation.get(), H5P_DEFAULT), file));
}

Hdf5Handle text_type(std::size_t width) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), std::max<std::size_t>(width, 1));
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

void put_attribute(hid_t object, const char* name, const std::string& value, const std::string& file) {
  const Hdf5Handle type = text_type(value.size());
  put_scalar(object, name, type.get(), type.get(), value.c_str(), file);
}
void put_attribute(hid_t object, const char* name, std::int64_t value, const std::string& file) {
  put_scalar(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value, file);
}
void put_attribute(hid_t object, const char* name, double value, const std::string& file) {
  put_scalar(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, file);
}

Hdf5Handle create_dataset(hid_t group, const char* name, hid_t type, const Layout& layout, const void* fill,
                          const std::string& file) {
  const int rank = static_cast<int>(layout.shape.size());
  const Hdf5Handle space(written(H5Screate_simple(rank, layout.shape.data(), nullptr), file));
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  if (fill) written(H5Pset_fill_value(creation.get(), type, fill), file);
  if (layout.chunk_rows > 0) {
    std::vector<hsize_t> chunk = layout.shape;
    for (auto& side : chunk) side = std::max<hsize_t>(side, 1);
    chunk[0] = std::min(chunk[0], layout.chunk_rows);
    written(H5Pset_chunk(creation.get(), rank, chunk.data()), file);
    if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) {
      H5Pset_shuffle(creation.get());
      H5Pset_deflate(creation.get(), 2);  // mostly NaN and zeros: the level hardly matters
    }
  }
  return Hdf5Handle(
      written(H5Dcreate2(group, name, type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), file));
}

void write_chunk_as_is(hid_t dataset, const std::vector<hsize_t>& origin, std::span<const std::byte> bytes,
                       const std::string& file) {
  constexpr std::uint32_t kSkipped = 3;  // shuffle and deflate
  written(H5Dwrite_chunk(dataset, H5P_DEFAULT, kSkipped, origin.data(), bytes.size(), bytes.data()), file);
}

void put_column(hid_t group, const char* name, std::span<const double> values, const char* unit,
                const char* meaning, const std::string& file, std::vector<hsize_t> shape) {
  if (shape.empty()) shape = {values.size()};
  put_whole(group, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.data(), {shape}, unit, meaning, file);
}
void put_column(hid_t group, const char* name, std::span<const std::int64_t> values, const char* unit,
                const char* meaning, const std::string& file) {
  put_whole(group, name, H5T_STD_I64LE, H5T_NATIVE_INT64, values.data(), {{values.size()}}, unit, meaning,
            file);
}
void put_column(hid_t group, const char* name, std::span<const char> values, const char* meaning,
                const std::string& file) {
  put_whole(group, name, H5T_STD_U8LE, H5T_NATIVE_UINT8, values.data(), {{values.size()}}, nullptr, meaning,
            file);
}
void put_column(hid_t group, const char* name, const std::vector<std::string>& values, const char* meaning,
                const std::string& file, hsize_t chunk_rows) {
  std::size_t width = 1;
  for (const auto& value : values) width = std::max(width, value.size());
  std::string padded(width * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) values[i].copy(padded.data() + i * width, width);
  const Hdf5Handle type = text_type(width);
  if (chunk_rows > 0) chunk_rows = std::clamp<hsize_t>((1 << 16) / width, 1, chunk_rows);
  put_whole(group, name, type.get(), type.get(), padded.data(), {{values.size()}, chunk_rows}, nullptr,
            meaning, file);
}

}  // namespace rope::detail
