#include "profiler/hdf5_checked.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "profiler/error.hpp"

namespace rope::detail {
namespace {

constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 26;
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 20;  // one name, setting or id
constexpr int kMaxRank = 2;

const char* class_name(H5T_class_t kind) {
  switch (kind) {
    case H5T_INTEGER:
      return "integers";
    case H5T_FLOAT:
      return "floating-point numbers";
    case H5T_STRING:
      return "text";
    default:
      return "another type";
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "shape [";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + (shape[i] < 0 ? std::string("any") : std::to_string(shape[i]));
  return text + "]";
}

/// Product without overflow; the largest number where it would not fit.
std::uint64_t product(const std::vector<std::int64_t>& shape, std::uint64_t element) {
  std::uint64_t total = element;
  for (const auto side : shape)
    if (__builtin_mul_overflow(total, static_cast<std::uint64_t>(side), &total)) return ~std::uint64_t{0};
  return total;
}

std::string trimmed(const char* bytes, std::size_t width) {
  while (width > 0 && bytes[width - 1] == '\0') --width;
  return {bytes, width};
}

}  // namespace

struct CheckedGroup::Dataset {
  Hdf5Handle id, type;
  std::vector<std::int64_t> shape;
  std::size_t element = 0;  // bytes in the file
};

CheckedGroup CheckedGroup::open_file(const std::string& path) {
  silence_hdf5();
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw UserError(path + ": cannot open: " + std::strerror(errno), "check the file's name");
  if (S_ISDIR(status.st_mode)) throw input_error(path, "", "a file", "a folder");
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    H5Eclear2(H5E_DEFAULT);
    throw input_error(path, "", "an HDF5 file", "something else");
  }
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!file.valid()) throw UserError(path + ": cannot open: " + hdf5_error_text(), "is the file whole?");
  hsize_t bytes = 0;
  H5Fget_filesize(file.get(), &bytes);
  return {std::move(file), path, "", bytes};
}

void CheckedGroup::fail(const std::string& name, const std::string& expected,
                        const std::string& found) const {
  throw input_error(file_, path_ + "/" + name, expected, found, "was this file written by rope-profiler?");
}

bool CheckedGroup::has(const std::string& name) const {
  const bool found = H5Lexists(id_.get(), name.c_str(), H5P_DEFAULT) > 0;
  H5Eclear2(H5E_DEFAULT);
  return found;
}

void CheckedGroup::expect_hard_link(const std::string& name) const {
  H5L_info_t link;
  if (H5Lget_info(id_.get(), name.c_str(), &link, H5P_DEFAULT) < 0) {
    H5Eclear2(H5E_DEFAULT);
    fail(name, "an object of this name", "none");
  }
  if (link.type != H5L_TYPE_HARD) fail(name, "an object in this file", "a soft or external link");
}

CheckedGroup CheckedGroup::group(const std::string& name) const {
  expect_hard_link(name);
  Hdf5Handle id(H5Gopen2(id_.get(), name.c_str(), H5P_DEFAULT));
  if (!id.valid()) fail(name, "a group", hdf5_error_text());
  return {std::move(id), file_, path_ + "/" + name, file_bytes_};
}

std::vector<std::string> CheckedGroup::members() const {
  H5G_info_t info;
  if (H5Gget_info(id_.get(), &info) < 0) fail("", "a readable group", hdf5_error_text());
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto name_of = [&](char* buffer, std::size_t size) {
      return H5Lget_name_by_idx(id_.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size, H5P_DEFAULT);
    };
    const ssize_t length = name_of(nullptr, 0);
    if (length < 0) fail("", "readable names", hdf5_error_text());
    if (static_cast<std::uint64_t>(length) > file_bytes_)
      fail("", "names that fit into the file", "longer ones");
    std::string name(static_cast<std::size_t>(length) + 1, '\0');
    if (name_of(name.data(), name.size()) < 0) fail("", "readable names", hdf5_error_text());
    name.resize(static_cast<std::size_t>(length));
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string CheckedGroup::read_text(const Hdf5Handle& attribute, const std::string& name) const {
  const Hdf5Handle type(H5Aget_type(attribute.get())), space(H5Aget_space(attribute.get()));
  // Text of variable length is refused: its reference into the file's heap cannot be checked beforehand.
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
      H5Sget_simple_extent_npoints(space.get()) != 1)
    fail(name, "one fixed-length text attribute", "another type");
  const std::size_t width = H5Tget_size(type.get());
  if (width == 0 || width > kMaxTextBytes)
    fail(name, "a text of at most 1 MiB", std::to_string(width) + " bytes");
  std::string text(width, '\0');
  const Hdf5Handle wanted(H5Tcopy(type.get()));
  H5Tset_strpad(wanted.get(), H5T_STR_NULLPAD);
  if (H5Aread(attribute.get(), wanted.get(), text.data()) < 0)
    fail(name, "a readable attribute", hdf5_error_text());
  return trimmed(text.data(), width);
}

std::string CheckedGroup::text(const char* attribute) const {
  const Hdf5Handle id(H5Aopen(id_.get(), attribute, H5P_DEFAULT));
  if (!id.valid()) {
    H5Eclear2(H5E_DEFAULT);
    fail(attribute, "a text attribute", "none");
  }
  return read_text(id, attribute);
}

std::int64_t CheckedGroup::integer(const char* attribute) const {
  const Hdf5Handle id(H5Aopen(id_.get(), attribute, H5P_DEFAULT));
  if (!id.valid()) {
    H5Eclear2(H5E_DEFAULT);
    fail(attribute, "an integer attribute", "none");
  }
  const Hdf5Handle type(H5Aget_type(id.get())), space(H5Aget_space(id.get()));
  std::int64_t value = 0;
  if (H5Tget_class(type.get()) != H5T_INTEGER || H5Tget_size(type.get()) > 8 ||
      H5Sget_simple_extent_npoints(space.get()) != 1 || H5Aread(id.get(), H5T_NATIVE_INT64, &value) < 0)
    fail(attribute, "one integer attribute", "another type");
  return value;
}

std::vector<std::pair<std::string, std::string>> CheckedGroup::texts() const {
  H5O_info_t info;
  if (H5Oget_info2(id_.get(), &info, H5O_INFO_NUM_ATTRS) < 0) fail("", "a readable group", hdf5_error_text());
  std::vector<std::pair<std::string, std::string>> all;
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    Hdf5Handle id(
        H5Aopen_by_idx(id_.get(), ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT));
    if (!id.valid()) fail("", "attributes in the order of their making", hdf5_error_text());
    const ssize_t length = H5Aget_name(id.get(), 0, nullptr);
    if (length < 0 || static_cast<std::uint64_t>(length) > kMaxTextBytes)
      fail("", "readable attribute names", "unreadable ones");
    std::string name(static_cast<std::size_t>(length) + 1, '\0');
    if (H5Aget_name(id.get(), name.size(), name.data()) < 0)
      fail("", "readable attribute names", "unreadable ones");
    name.resize(static_cast<std::size_t>(length));
    std::string value = read_text(id, name);
    all.emplace_back(std::move(name), std::move(value));
  }
  return all;
}

CheckedGroup::Dataset CheckedGroup::open(const std::string& name, H5T_class_t kind) const {
  expect_hard_link(name);
  Dataset d;
  d.id = Hdf5Handle(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT));
  if (!d.id.valid()) fail(name, "a dataset", hdf5_error_text());
  d.type = Hdf5Handle(H5Dget_type(d.id.get()));
  const H5T_class_t found = H5Tget_class(d.type.get());
  if (found != kind || (kind == H5T_STRING && H5Tis_variable_str(d.type.get()) != 0))
    fail(name, class_name(kind), found == kind ? "text of variable length" : class_name(found));
  d.element = H5Tget_size(d.type.get());
  if (d.element == 0 || d.element > (kind == H5T_STRING ? kMaxTextBytes : 8))
    fail(name, class_name(kind) + std::string(" of a usual size"), std::to_string(d.element) + " bytes each");

  const Hdf5Handle space(H5Dget_space(d.id.get()));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (H5Sget_simple_extent_type(space.get()) != H5S_SIMPLE || rank < 1 || rank > kMaxRank)
    fail(name, "one or two axes", std::to_string(rank) + " axes");
  hsize_t sides[kMaxRank] = {}, chunk[kMaxRank] = {};
  H5Sget_simple_extent_dims(space.get(), sides, nullptr);
  for (int i = 0; i < rank; ++i) {
    if (sides[i] > (hsize_t{1} << 62)) fail(name, "a size that a file can hold", std::to_string(sides[i]));
    d.shape.push_back(static_cast<std::int64_t>(sides[i]));
  }

  const Hdf5Handle creation(H5Dget_create_plist(d.id.get()));
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (H5Pget_external_count(creation.get()) != 0 || (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED))
    fail(name, "a contiguous or chunked dataset in this file", "external, virtual or compact storage");
  if (layout == H5D_CONTIGUOUS) {
    if (product(d.shape, d.element) > file_bytes_)
      fail(name, "a size that the file can hold", shape_text(d.shape));
    return d;
  }
  if (H5Pget_chunk(creation.get(), rank, chunk) != rank) fail(name, "readable chunks", hdf5_error_text());
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < rank; ++i) sizes.push_back(static_cast<std::int64_t>(chunk[i] & ~(hsize_t{1} << 63)));
  if (product(sizes, d.element) > kMaxChunkBytes) fail(name, "chunks of at most 64 MiB", "larger ones");
  for (int i = 0; i < H5Pget_nfilters(creation.get()); ++i) {
    unsigned flags = 0, config = 0;
    std::size_t parameters = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &parameters,
                                               nullptr, 0, nullptr, &config);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE)
      fail(name, "shuffled and deflated chunks", "filter number " + std::to_string(filter));
  }
  return d;
}

namespace {

/// Reads rows [first, first + count) into `to`.
bool read_rows(hid_t dataset, hid_t memory_type, const std::vector<std::int64_t>& shape, std::int64_t first,
               std::int64_t count, void* to) {
  hsize_t start[kMaxRank] = {static_cast<hsize_t>(first), 0}, size[kMaxRank] = {};
  for (std::size_t i = 0; i < shape.size(); ++i) size[i] = static_cast<hsize_t>(shape[i]);
  size[0] = static_cast<hsize_t>(count);
  const Hdf5Handle there(H5Dget_space(dataset));
  const Hdf5Handle here(H5Screate_simple(static_cast<int>(shape.size()), size, nullptr));
  return H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, start, nullptr, size, nullptr) >= 0 &&
         H5Dread(dataset, memory_type, here.get(), there.get(), H5P_DEFAULT, to) >= 0;
}

}  // namespace

template <class T>
std::vector<T> CheckedGroup::numbers(const std::string& name, H5T_class_t kind, hid_t native,
                                     const std::vector<std::int64_t>* shape, std::int64_t first,
                                     std::int64_t count) const {
  const Dataset d = open(name, kind);
  if (!shape) {
    if (d.shape.size() != 1 || (count >= 0 && d.shape[0] != count))
      fail(name, shape_text({count}), shape_text(d.shape));
    // Whole columns are contiguous, so that the file's size bounds them.
    if (product(d.shape, d.element) > file_bytes_)
      fail(name, "a size that the file can hold", shape_text(d.shape));
    count = d.shape[0];
  } else {
    if (d.shape != *shape) fail(name, shape_text(*shape), shape_text(d.shape));
    if (first < 0 || count < 0 || first > d.shape[0] - count) fail(name, "rows inside the dataset", "others");
  }
  std::vector<std::int64_t> block = d.shape;
  block[0] = count;
  std::vector<T> values(static_cast<std::size_t>(product(block, 1)));
  if (!values.empty() && !read_rows(d.id.get(), native, d.shape, first, count, values.data()))
    fail(name, "readable values", hdf5_error_text());
  return values;
}

std::vector<double> CheckedGroup::reals(const std::string& name, std::int64_t rows) const {
  return numbers<double>(name, H5T_FLOAT, H5T_NATIVE_DOUBLE, nullptr, 0, rows);
}
std::vector<std::int64_t> CheckedGroup::integers(const std::string& name, std::int64_t rows) const {
  return numbers<std::int64_t>(name, H5T_INTEGER, H5T_NATIVE_INT64, nullptr, 0, rows);
}
std::vector<double> CheckedGroup::reals(const std::string& name, const std::vector<std::int64_t>& shape,
                                        std::int64_t first, std::int64_t count) const {
  return numbers<double>(name, H5T_FLOAT, H5T_NATIVE_DOUBLE, &shape, first, count);
}
std::vector<std::int64_t> CheckedGroup::integers(const std::string& name,
                                                 const std::vector<std::int64_t>& shape, std::int64_t first,
                                                 std::int64_t count) const {
  return numbers<std::int64_t>(name, H5T_INTEGER, H5T_NATIVE_INT64, &shape, first, count);
}

std::vector<double> CheckedGroup::table(const std::string& name, std::int64_t rows,
                                        std::int64_t columns) const {
  if (product({rows, columns}, sizeof(double)) > file_bytes_)
    fail(name, "a size that the file can hold", shape_text({rows, columns}));
  return reals(name, {rows, columns}, 0, rows);
}

std::vector<std::string> CheckedGroup::strings(const std::string& name, std::int64_t rows) const {
  const Dataset d = open(name, H5T_STRING);
  if (d.shape.size() != 1 || (rows >= 0 && d.shape[0] != rows))
    fail(name, shape_text({rows}), shape_text(d.shape));
  if (product(d.shape, d.element) > file_bytes_)
    fail(name, "a size that the file can hold", shape_text(d.shape));
  return strings(name, d.shape[0], 0, d.shape[0]);
}

std::vector<std::string> CheckedGroup::strings(const std::string& name, std::int64_t rows, std::int64_t first,
                                               std::int64_t count) const {
  const Dataset d = open(name, H5T_STRING);
  if (d.shape != std::vector<std::int64_t>{rows}) fail(name, shape_text({rows}), shape_text(d.shape));
  if (first < 0 || count < 0 || first > rows - count) fail(name, "rows inside the dataset", "others");
  const Hdf5Handle wanted(H5Tcopy(d.type.get()));
  H5Tset_strpad(wanted.get(), H5T_STR_NULLPAD);
  std::vector<std::string> texts;
  const std::int64_t block = std::max<std::int64_t>(1, static_cast<std::int64_t>(kMaxTextBytes / d.element));
  std::string bytes;
  for (std::int64_t at = 0; at < count; at += block) {
    const std::int64_t now = std::min(block, count - at);
    bytes.assign(static_cast<std::size_t>(now) * d.element, '\0');
    if (!read_rows(d.id.get(), wanted.get(), d.shape, first + at, now, bytes.data()))
      fail(name, "readable text", hdf5_error_text());
    for (std::int64_t i = 0; i < now; ++i)
      texts.push_back(trimmed(bytes.data() + static_cast<std::size_t>(i) * d.element, d.element));
  }
  return texts;
}

}  // namespace rope::detail
