#include "profiler/profile_group.hpp"

namespace rope {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 20;  // one warning, name or id

/// Where a block of rows starts, and its size.
struct Block {
  std::vector<std::int64_t> start, count;
};

Block rows_of(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t count) {
  Block block{std::vector<std::int64_t>(shape.size(), 0), shape};
  block.start[0] = first;
  block.count[0] = count;
  return block;
}

}  // namespace

void ProfileGroup::fail(const std::string& name, const std::string& expected,
                        const std::string& found) const {
  throw source_.error((group_.path == "/" ? "" : group_.path) + "/" + name, expected, found);
}

std::string ProfileGroup::text(const std::string& attribute) const {
  auto value = source_.text(group_.handle.get(), group_.path, attribute);
  if (!value) throw source_.error(group_.path + " (attribute " + attribute + ")", "text", "nothing");
  return std::move(*value);
}

std::int64_t ProfileGroup::integer(const std::string& attribute) const {
  const auto value = source_.integer(group_.handle.get(), group_.path, attribute);
  if (!value) throw source_.error(group_.path + " (attribute " + attribute + ")", "an integer", "nothing");
  return *value;
}

void ProfileGroup::require_column(const Hdf5Dataset& set, std::int64_t rows) const {
  if (set.shape.size() != 1) throw source_.error(set.path, "one axis", "shape " + shape_text(set.shape));
  if (rows >= 0) source_.require_shape(set, {rows}, "[rows]");
  source_.require_small(set);
}

std::vector<double> ProfileGroup::reals(const std::string& name, std::int64_t rows) const {
  const Hdf5Dataset set = source_.dataset(group_, name);
  source_.require_floats(set);
  require_column(set, rows);
  return source_.read_doubles(set, {0}, set.shape);
}

std::vector<std::int64_t> ProfileGroup::integers(const std::string& name, std::int64_t rows) const {
  const Hdf5Dataset set = source_.dataset(group_, name);
  source_.require_integers(set);
  require_column(set, rows);
  return source_.read_integers(set, {0}, set.shape);
}

std::vector<std::string> ProfileGroup::texts(const std::string& name, std::int64_t rows) const {
  const Hdf5Dataset set = source_.dataset(group_, name);
  source_.require_texts(set, kLongestText);
  require_column(set, rows);
  return source_.read_texts(set, 0, set.shape[0]);
}

std::vector<double> ProfileGroup::table(const std::string& name, std::int64_t rows,
                                        std::int64_t columns) const {
  const Hdf5Dataset set = source_.dataset(group_, name);
  source_.require_floats(set);
  source_.require_shape(set, {rows, columns}, "[rows, columns]");
  source_.require_small(set);
  return source_.read_doubles(set, {0, 0}, set.shape);
}

std::vector<double> ProfileGroup::reals(const std::string& name, const std::vector<std::int64_t>& shape,
                                        std::int64_t first, std::int64_t count) const {
  const Hdf5Dataset set = source_.dataset(group_, name);
  source_.require_floats(set);
  source_.require_shape(set, shape, "[examples, heads]");
  const Block block = rows_of(shape, first, count);
  return source_.read_doubles(set, block.start, block.count);
}

std::vector<std::int64_t> ProfileGroup::integers(const std::string& name,
                                                 const std::vector<std::int64_t>& shape, std::int64_t first,
                                                 std::int64_t count) const {
  const Hdf5Dataset set = source_.dataset(group_, name);
  source_.require_integers(set);
  source_.require_shape(set, shape, shape.size() == 1 ? "[examples]" : "[examples, heads]");
  const Block block = rows_of(shape, first, count);
  return source_.read_integers(set, block.start, block.count);
}

std::vector<std::string> ProfileGroup::texts(const std::string& name, const std::vector<std::int64_t>& shape,
                                             std::int64_t first, std::int64_t count) const {
  const Hdf5Dataset set = source_.dataset(group_, name);
  source_.require_texts(set, kLongestText);
  source_.require_shape(set, shape, "[examples]");
  return source_.read_texts(set, first, count);
}

}  // namespace rope
