// Attributes of a checked HDF5 file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/hdf5_read.hpp"

namespace rope {
namespace {

constexpr std::size_t kLongestText = std::size_t{16} << 20;

/// More than this is no file of ours; the limit also ends a walk over a damaged index.
constexpr std::size_t kMostAttributes = 10000;

herr_t collect_name(hid_t, const char* name, const H5A_info_t*, void* out) {
  auto& names = *static_cast<std::vector<std::string>*>(out);
  names.emplace_back(name);
  return names.size() > kMostAttributes ? 1 : 0;
}

std::string at(const std::string& object_path, const std::string& name) {
  return object_path + " (attribute " + name + ")";
}

}  // namespace

std::string type_text(hid_t type) {
  const std::size_t bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("{}-bit {}integer", bits, H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned " : "");
    case H5T_FLOAT:
      return fmt::format("{}-bit float", bits);
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "a compound type";
    case H5T_ENUM:
      return "an enumeration";
    case H5T_VLEN:
      return "a variable-length sequence";
    case H5T_ARRAY:
      return "an array type";
    case H5T_REFERENCE:
      return "a reference";
    case H5T_OPAQUE:
      return "an opaque type";
    case H5T_BITFIELD:
      return "a bit field";
    case H5T_TIME:
      return "a time";
    default:
      return "an unknown type";
  }
}

bool is_plain_number(hid_t type) {
  const std::size_t bytes = H5Tget_size(type), bits = 8 * bytes;
  const H5T_order_t order = H5Tget_order(type);
  if (bytes == 0 || bytes > 8 || H5Tget_precision(type) != bits || H5Tget_offset(type) != 0 ||
      (order != H5T_ORDER_LE && order != H5T_ORDER_BE))
    return false;
  if (H5Tget_class(type) == H5T_INTEGER) return true;
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) return false;
  return sign == bits - 1 && mantissa == 0 && exponent == mantissa_bits && exponent + exponent_bits == sign &&
         exponent_bits >= 1 && H5Tget_norm(type) == H5T_NORM_IMPLIED;
}

/// The attribute, checked to hold exactly one value; empty when it does not exist.
Hdf5Handle Hdf5Source::one_value(hid_t object, const std::string& where, const std::string& name) const {
  const htri_t exists = H5Aexists(object, name.c_str());
  if (exists == 0) return {};
  Hdf5Handle attribute(exists > 0 ? H5Aopen(object, name.c_str(), H5P_DEFAULT) : hid_t{-1});
  if (!attribute.valid()) throw error(where, "a readable attribute", "damage: " + hdf5_error_text());
  const Hdf5Handle space(H5Aget_space(attribute.get()));
  const hssize_t count = space.valid() ? H5Sget_simple_extent_npoints(space.get()) : -1;
  if (count != 1)
    throw error(where, "one value", count < 0 ? "damage: " + hdf5_error_text() : fmt::format("{}", count));
  return attribute;
}

std::optional<std::string> Hdf5Source::text(hid_t object, const std::string& object_path,
                                            const std::string& name) const {
  const std::string where = at(object_path, name);
  const Hdf5Handle attribute = one_value(object, where, name);
  if (!attribute.valid()) return std::nullopt;
  const Hdf5Handle type(H5Aget_type(attribute.get()));
  if (!type.valid() || H5Tget_class(type.get()) != H5T_STRING)
    throw error(where, "text", type.valid() ? type_text(type.get()) : "damage: " + hdf5_error_text());
  const auto damaged = [&] { return error(where, "readable text", "damage: " + hdf5_error_text()); };
  const htri_t variable = H5Tis_variable_str(type.get());
  if (variable != 0 && rules_ == Hdf5Rules::kOwnFiles)
    throw error(where, "text of fixed length", "text of variable length");
  std::string value;
  if (variable > 0) {
    const Hdf5Handle memory(H5Tcopy(type.get()));
    char* data = nullptr;
    if (H5Aread(attribute.get(), memory.get(), &data) < 0) throw damaged();
    if (data != nullptr) value = data;
    const Hdf5Handle space(H5Aget_space(attribute.get()));
    H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, &data);
  } else {
    const std::size_t size = H5Tget_size(type.get());
    if (size == 0 || size > kLongestText || size > static_cast<std::size_t>(bytes()))
      throw error(where, "text that fits in the file", fmt::format("a claim of {} bytes", size));
    value.resize(size);
    if (H5Aread(attribute.get(), type.get(), value.data()) < 0) throw damaged();
    value.resize(std::min(value.find('\0'), value.size()));  // a string without end ends with its space
    if (H5Tget_strpad(type.get()) == H5T_STR_SPACEPAD) value.resize(value.find_last_not_of(' ') + 1);
  }
  if (value.size() > kLongestText)
    throw error(where, "at most 16 MiB of text", fmt::format("{}", value.size()));
  return value;
}

std::vector<std::pair<std::string, std::string>> Hdf5Source::texts(const Hdf5Group& group) const {
  std::vector<std::string> names;
  hsize_t first = 0;
  if (H5Aiterate2(group.handle.get(), H5_INDEX_CRT_ORDER, H5_ITER_INC, &first, collect_name, &names) < 0)
    throw error(group.path, "attributes in the order of their making", "damage: " + hdf5_error_text());
  if (names.size() > kMostAttributes)
    throw error(group.path, fmt::format("at most {} attributes", kMostAttributes), "more");
  std::vector<std::pair<std::string, std::string>> all;
  for (std::string& name : names) {
    std::optional<std::string> value = text(group.handle.get(), group.path, name);
    if (!value) throw error(at(group.path, name), "a readable attribute", "nothing");
    all.emplace_back(std::move(name), std::move(*value));
  }
  return all;
}

std::vector<std::string> Hdf5Source::attribute_names(hid_t object) const {
  std::vector<std::string> names;
  hsize_t first = 0;
  if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, &first, collect_name, &names) < 0)
    H5Eclear2(H5E_DEFAULT);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<double> Hdf5Source::number(hid_t object, const std::string& object_path,
                                         const std::string& name) const {
  const std::string where = at(object_path, name);
  const Hdf5Handle attribute = one_value(object, where, name);
  if (!attribute.valid()) return std::nullopt;
  const Hdf5Handle type(H5Aget_type(attribute.get()));
  const H5T_class_t kind = type.valid() ? H5Tget_class(type.get()) : H5T_NO_CLASS;
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || !is_plain_number(type.get()))
    throw error(where, "a number", type.valid() ? type_text(type.get()) : "damage: " + hdf5_error_text());
  double value = 0;
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0)
    throw error(where, "a readable number", "damage: " + hdf5_error_text());
  return value;
}

std::optional<std::int64_t> Hdf5Source::integer(hid_t object, const std::string& object_path,
                                                const std::string& name) const {
  // No count in these files comes near 2^53: one way through float64 serves integers and whole floats.
  const std::optional<double> value = number(object, object_path, name);
  if (!value) return std::nullopt;
  if (!(std::fabs(*value) <= 0x1p53) || *value != std::floor(*value))
    throw error(at(object_path, name), "an integer", fmt::format("{}", *value));
  return static_cast<std::int64_t>(*value);
}

}  // namespace rope
