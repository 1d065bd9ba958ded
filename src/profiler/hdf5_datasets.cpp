// Datasets of a checked HDF5 file.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "profiler/clean_text.hpp"
#include "profiler/hdf5_read.hpp"
#include "profiler/stored_chunk.hpp"

namespace rope {
namespace {

/// No filter shrinks data much more than a thousandfold (deflate: 1032), and chunks that were never written
/// are rare: a dataset that claims more than this many times the file is refused.
constexpr std::int64_t kMostExpansion = 4096, kExpansionSlack = std::int64_t{16} << 20;
constexpr std::int64_t kLargestChunk = std::int64_t{1} << 30, kLargestOwnChunk = std::int64_t{64} << 20;
constexpr std::size_t kTextBlock = std::size_t{1} << 20;
constexpr std::int64_t kChunkCache = std::int64_t{64} << 20;

/// Product of sizes, or -1 past 2^62.
std::int64_t product(const std::vector<std::int64_t>& shape, std::int64_t first) {
  std::int64_t total = first;
  for (const std::int64_t n : shape) {
    if (n < 0) return -1;
    if (n != 0 && total > (std::int64_t{1} << 62) / n) return -1;
    total *= n;
  }
  return total;
}

/// Bytes of an element inside a chunk: a reference into the file's heap where texts have variable length.
std::int64_t chunk_element_bytes(const Hdf5Dataset& set) {
  constexpr std::int64_t kReference = 16;
  const bool variable = set.type_class == H5T_STRING && H5Tis_variable_str(set.type.get()) > 0;
  return variable ? kReference : static_cast<std::int64_t>(set.element_bytes);
}

/// Bytes of the chunks that one index of the first axis touches, at most kChunkCache.
std::int64_t row_bytes(const Hdf5Dataset& set) {
  if (set.chunk.empty()) return 0;
  std::int64_t total = chunk_element_bytes(set);
  for (std::size_t i = 0; i < set.shape.size(); ++i) {
    const std::int64_t chunks = i == 0 ? 1 : (set.shape[i] + set.chunk[i] - 1) / set.chunk[i];
    total = product({chunks, set.chunk[i]}, total);
    if (total < 0 || total > kChunkCache) return kChunkCache;
  }
  return total;
}

/// Chunk cache for a reader that takes rows of the first axis in pieces [.., .., some, all, all]. Compressed
/// chunks are decoded once per row. Plain ones that hold the last two axes whole are read in place, past the
/// cache: a head out of a chunk of 24 then costs a head.
Hdf5Handle cache_plist(const Hdf5Dataset& set) {
  const std::size_t rank = set.shape.size();
  const bool in_place = !set.filtered && rank >= 2 && set.chunk[rank - 1] >= set.shape[rank - 1] &&
                        set.chunk[rank - 2] >= set.shape[rank - 2];
  const std::int64_t chunk = product(set.chunk, chunk_element_bytes(set));
  const std::int64_t bytes = in_place ? 0 : std::max(row_bytes(set), chunk);
  Hdf5Handle plist(H5Pcreate(H5P_DATASET_ACCESS));
  constexpr std::size_t kSlots = 12421;  // HDF5's table holds one chunk per slot
  H5Pset_chunk_cache(plist.get(), kSlots, static_cast<std::size_t>(bytes), 1.0);
  return plist;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void Hdf5Source::check_size(const Hdf5Dataset& set) const {
  const std::int64_t claimed = product(set.shape, static_cast<std::int64_t>(set.element_bytes));
  const std::int64_t size = bytes(), most = size * kMostExpansion + kExpansionSlack;
  if (claimed < 0 || claimed > most)
    throw error(set.path, fmt::format("a size that a file of {} bytes can hold", size),
                fmt::format("a claim of {} elements of {} bytes", shape_text(set.shape), set.element_bytes));
  if (set.chunk.empty()) return;
  const std::int64_t chunk = product(set.chunk, static_cast<std::int64_t>(set.element_bytes));
  const std::int64_t largest = rules_ == Hdf5Rules::kOwnFiles ? kLargestOwnChunk : kLargestChunk;
  if (chunk <= 0 || chunk > std::min(most, largest))
    throw error(set.path,
                fmt::format("chunks that a file of {} bytes can hold, at most {} MiB", size, largest >> 20),
                fmt::format("chunks of {} elements of {} bytes", shape_text(set.chunk), set.element_bytes));
}

void Hdf5Source::check_filters(Hdf5Dataset& set, hid_t plist) const {
  unsigned options = 0;
  if (!set.chunk.empty() && H5Pget_chunk_opts(plist, &options) >= 0)
    set.uniform_chunks = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0;
  const int count = H5Pget_nfilters(plist);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    unsigned value = 0;
    std::size_t values = 1;
    std::array<char, 64> name{};
    const H5Z_filter_t filter = H5Pget_filter2(plist, static_cast<unsigned>(i), &flags, &values, &value,
                                               name.size() - 1, name.data(), &config);
    if (filter < 0) throw error(set.path, "readable filters", "damage: " + hdf5_error_text());
    set.filters.push_back({filter, values > 0 ? value : 0});
    if (rules_ == Hdf5Rules::kOwnFiles && filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE)
      throw error(set.path, "shuffled and deflated chunks", fmt::format("filter {}", filter));
    if (H5Zfilter_avail(filter) > 0) continue;
    hdf5_error_text();  // the search for a plugin leaves its own complaints behind
    throw error(
        set.path, "a compression that this HDF5 library can decode",
        fmt::format("filter {} {}", filter, quoted(name.data())),
        "install HDF5 filter plugins (Debian package hdf5-filter-plugin) and set HDF5_PLUGIN_PATH where "
        "they lie elsewhere, or store the dataset with gzip, LZF or no filter");
  }
}

void Hdf5Source::check_storage(Hdf5Dataset& set, hid_t plist) const {
  const H5D_layout_t layout = H5Pget_layout(plist);
  if (layout == H5D_VIRTUAL) throw error(set.path, "a dataset stored in this file", "a virtual dataset");
  if (H5Pget_external_count(plist) != 0)
    throw error(set.path, "a dataset stored in this file", "external storage");
  if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT)
    throw error(set.path, "contiguous, chunked or compact storage", "damage: " + hdf5_error_text());
  set.contiguous = layout == H5D_CONTIGUOUS;
  set.filtered = H5Pget_nfilters(plist) > 0;
  if (layout != H5D_CHUNKED) return;
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int rank = H5Pget_chunk(plist, H5S_MAX_RANK, chunk.data());
  if (rank < 0) throw error(set.path, "readable chunk sizes", "damage: " + hdf5_error_text());
  for (int i = 0; i < rank; ++i)
    set.chunk.push_back(
        static_cast<std::int64_t>(std::min<hsize_t>(chunk[static_cast<std::size_t>(i)], hsize_t{1} << 62)));
}

Hdf5Dataset Hdf5Source::dataset(const Hdf5Group& parent, const std::string& name, bool cache_rows) const {
  check_link(parent, name);
  Hdf5Dataset set;
  set.path = parent.path == "/" ? "/" + name : parent.path + "/" + name;
  const auto damaged = [&] { return error(set.path, "a dataset", "damage: " + hdf5_error_text()); };
  set.handle = Hdf5Handle(H5Oopen(parent.handle.get(), name.c_str(), H5P_DEFAULT));
  if (!set.handle.valid()) throw damaged();
  if (H5Iget_type(set.handle.get()) != H5I_DATASET) throw error(set.path, "a dataset", "a group or type");
  const Hdf5Handle plist(H5Dget_create_plist(set.handle.get()));
  if (!plist.valid()) throw damaged();
  check_storage(set, plist.get());  // before the shape: a virtual dataset opens other files to tell its own
  const Hdf5Handle space(H5Dget_space(set.handle.get()));
  set.type = Hdf5Handle(H5Dget_type(set.handle.get()));
  const int rank = space.valid() ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (rank < 0 || rank > H5S_MAX_RANK || !set.type.valid()) throw damaged();
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) throw error(set.path, "data", "a null dataspace");
  std::array<hsize_t, H5S_MAX_RANK> shape{};
  if (H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr) < 0) throw damaged();
  for (int i = 0; i < rank; ++i)
    set.shape.push_back(
        static_cast<std::int64_t>(std::min<hsize_t>(shape[static_cast<std::size_t>(i)], hsize_t{1} << 62)));
  if (!set.chunk.empty() && set.chunk.size() != set.shape.size())
    throw error(set.path, "chunks of the dataset's rank", shape_text(set.chunk));
  set.type_class = H5Tget_class(set.type.get());
  set.element_bytes = H5Tget_size(set.type.get());
  if (set.element_bytes == 0) throw damaged();
  check_size(set);
  check_filters(set, plist.get());
  if (set.contiguous) {
    const haddr_t offset = H5Dget_offset(set.handle.get());
    H5Eclear2(H5E_DEFAULT);
    const std::int64_t size = product(set.shape, static_cast<std::int64_t>(set.element_bytes));
    if (offset != HADDR_UNDEF && size > 0) {
      const std::int64_t end = bytes();
      if (offset > static_cast<haddr_t>(end) || size > end - static_cast<std::int64_t>(offset))
        throw error(set.path, fmt::format("data inside the file's {} bytes", end),
                    fmt::format("bytes {} to {}", offset, offset + static_cast<haddr_t>(size)),
                    "the file may be truncated");
      set.offset = static_cast<std::int64_t>(offset);
    }
  }
  constexpr std::int64_t kDefaultCache = std::int64_t{1} << 20;
  const bool piecewise = set.filtered && row_bytes(set) > kDefaultCache;  // else decoded again for every row
  if (!set.chunk.empty() && (cache_rows || piecewise)) {
    const Hdf5Handle access = cache_plist(set);
    set.handle.close();
    set.handle = Hdf5Handle(H5Dopen2(parent.handle.get(), name.c_str(), access.get()));
    if (!set.handle.valid()) throw damaged();
  }
  return set;
}

/// Bytes that a chunk takes in the file; 0 when it was never written. A stream of deflate or LZF is hardly
/// longer than what it holds; a longer one is refused. The slack is for headers and checksums.
hsize_t Hdf5Source::stored_bytes(const Hdf5Dataset& set, const std::vector<hsize_t>& origin) const {
  const std::int64_t raw = product(set.chunk, chunk_element_bytes(set));
  const std::int64_t most = raw + raw / 64 + 4096;
  hsize_t stored = 0;
  if (H5Dget_chunk_storage_size(set.handle.get(), origin.data(), &stored) < 0) {
    H5Eclear2(H5E_DEFAULT);  // never written; what is damaged fails on reading
    return 0;
  }
  if (stored > static_cast<hsize_t>(most))
    throw error(fmt::format("{}, chunk at {}", set.path, fmt::format("[{}]", fmt::join(origin, ", "))),
                fmt::format("at most the chunk's {} bytes, compressed", raw), fmt::format("{} bytes", stored),
                "copy or write the file again");
  return stored;
}

bool Hdf5Source::read_stored_chunk(const Hdf5Dataset& set, const std::vector<std::int64_t>& origin,
                                   std::vector<std::byte>& stored, std::uint32_t& skipped) const {
  const std::vector<hsize_t> at(origin.begin(), origin.end());
  stored.resize(stored_bytes(set, at));
  if (stored.empty()) return false;
  if (H5Dread_chunk(set.handle.get(), H5P_DEFAULT, at.data(), &skipped, stored.data()) < 0)
    throw error(set.path, "readable data", "damage: " + hdf5_error_text());
  return true;
}

/// The library inflates all of a stream, whatever the chunk's size: a thousand times the chunk at worst. So
/// chunks are decoded here before the library sees them, and no further than their size.
void Hdf5Source::check_decoded_size(const Hdf5Dataset& set, const std::vector<hsize_t>& origin) const {
  if (!can_decode_chunks(set) || set.checked.count(origin) != 0) return;
  std::vector<std::byte> stored, decoded;
  std::uint32_t skipped = 0;
  if (!read_stored_chunk(set, {origin.begin(), origin.end()}, stored, skipped)) return;
  const std::int64_t size = product(set.chunk, chunk_element_bytes(set));
  if (!decode_chunk(set.filters, skipped, stored, static_cast<std::size_t>(size), decoded))
    throw error(fmt::format("{}, chunk at {}", set.path, fmt::format("[{}]", fmt::join(origin, ", "))),
                fmt::format("a chunk of {} bytes", size), "damage: its compressed data do not give that",
                "copy or write the file again");
  constexpr std::size_t kMostChecked = 4096;
  if (set.checked.size() >= kMostChecked) set.checked.clear();
  set.checked.insert(origin);
}

/// Every chunk of a hyperslab, before it is read.
void Hdf5Source::check_chunks(const Hdf5Dataset& set, const std::vector<hsize_t>& first,
                              const std::vector<hsize_t>& size) const {
  std::vector<hsize_t> start(first.size()), at;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (size[i] == 0) return;
    const auto chunk = static_cast<hsize_t>(set.chunk[i]);
    start[i] = first[i] / chunk * chunk;
  }
  at = start;
  for (std::size_t axis = 0; axis < at.size();) {
    if (stored_bytes(set, at) > 0) check_decoded_size(set, at);
    for (axis = 0; axis < at.size(); ++axis) {  // the next chunk
      at[axis] += static_cast<hsize_t>(set.chunk[axis]);
      if (at[axis] < first[axis] + size[axis]) break;
      at[axis] = start[axis];
    }
  }
}

void Hdf5Source::read(const Hdf5Dataset& set, hid_t memory_type, const std::vector<std::int64_t>& start,
                      const std::vector<std::int64_t>& count, void* out) const {
  const std::vector<hsize_t> first(start.begin(), start.end()), size(count.begin(), count.end());
  if (set.filtered && !set.chunk.empty()) check_chunks(set, first, size);
  // The memory space has the file's rank: with another one HDF5 walks chunks element by element.
  const int rank = static_cast<int>(size.size());
  const Hdf5Handle memory(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, size.data(), nullptr));
  const Hdf5Handle space(H5Dget_space(set.handle.get()));
  if (!memory.valid() || !space.valid() ||
      (rank > 0 &&
       H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, size.data(), nullptr) < 0) ||
      H5Dread(set.handle.get(), memory_type, memory.get(), space.get(), transfer_.get(), out) < 0)
    throw error(set.path, "readable data", "damage: " + hdf5_error_text());
}

void Hdf5Source::read_bytes(const Hdf5Dataset& set, std::int64_t offset, std::size_t count, void* out) const {
  auto* to = static_cast<std::byte*>(out);
  while (count > 0) {
    const ssize_t got = pread(descriptor_, to, count, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw error(set.path, "readable data", got < 0 ? std::strerror(errno) : "the end of the file");
    to += got;
    offset += got;
    count -= static_cast<std::size_t>(got);
  }
}

std::vector<std::int64_t> Hdf5Source::read_integers(const Hdf5Dataset& set,
                                                    const std::vector<std::int64_t>& start,
                                                    const std::vector<std::int64_t>& count) const {
  std::vector<std::int64_t> values(static_cast<std::size_t>(product(count, 1)));
  if (!values.empty()) read(set, H5T_NATIVE_INT64, start, count, values.data());
  return values;
}

std::vector<double> Hdf5Source::read_doubles(const Hdf5Dataset& set, const std::vector<std::int64_t>& start,
                                             const std::vector<std::int64_t>& count) const {
  std::vector<double> values(static_cast<std::size_t>(product(count, 1)));
  if (!values.empty()) read(set, H5T_NATIVE_DOUBLE, start, count, values.data());
  return values;
}

std::vector<double> Hdf5Source::read_doubles(const Hdf5Dataset& set) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;  // 128 MiB
  const std::int64_t count = product(set.shape, 1);
  if (count > kMost) throw error(set.path, fmt::format("at most {} values", kMost), fmt::format("{}", count));
  return read_doubles(set, std::vector<std::int64_t>(set.shape.size(), 0), set.shape);
}

std::vector<std::string> Hdf5Source::read_texts(const Hdf5Dataset& set, std::int64_t first,
                                                std::int64_t count) const {
  std::vector<std::string> texts;
  if (count <= 0) return texts;
  texts.reserve(static_cast<std::size_t>(count));
  const std::size_t n = static_cast<std::size_t>(count);
  if (H5Tis_variable_str(set.type.get()) > 0) {
    std::vector<char*> pointers(n, nullptr);
    const hsize_t size = n;
    const Hdf5Handle memory(H5Screate_simple(1, &size, nullptr));
    try {
      read(set, set.type.get(), {first}, {count}, pointers.data());
    } catch (...) {
      H5Dvlen_reclaim(set.type.get(), memory.get(), H5P_DEFAULT, pointers.data());
      throw;
    }
    for (const char* text : pointers) texts.emplace_back(text == nullptr ? "" : text);
    H5Dvlen_reclaim(set.type.get(), memory.get(), H5P_DEFAULT, pointers.data());
    return texts;
  }
  // In pieces: short texts may be stored with much room.
  const std::size_t bytes_each = set.element_bytes;
  const std::int64_t most = static_cast<std::int64_t>(std::max<std::size_t>(1, kTextBlock / bytes_each));
  const bool spaces = H5Tget_strpad(set.type.get()) == H5T_STR_SPACEPAD;
  std::vector<char> block;
  for (std::int64_t done = 0; done < count; done += most) {
    const std::int64_t now = std::min(most, count - done);
    block.resize(static_cast<std::size_t>(now) * bytes_each);
    read(set, set.type.get(), {first + done}, {now}, block.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(now); ++i) {
      std::string_view text(block.data() + i * bytes_each, bytes_each);
      text = text.substr(0, text.find('\0'));
      if (spaces) text = text.substr(0, text.find_last_not_of(' ') + 1);
      texts.emplace_back(text);
    }
  }
  return texts;
}

void Hdf5Source::require_shape(const Hdf5Dataset& set, const std::vector<std::int64_t>& shape,
                               const std::string& meaning) const {
  if (set.shape != shape)
    throw error(set.path, "shape " + meaning + " = " + shape_text(shape), shape_text(set.shape));
}

void Hdf5Source::require_integers(const Hdf5Dataset& set) const {
  if (set.type_class != H5T_INTEGER || !is_plain_number(set.type.get()))
    throw error(set.path, "an integer type", type_text(set.type.get()));
}

void Hdf5Source::require_floats(const Hdf5Dataset& set) const {
  if (set.type_class != H5T_FLOAT || !is_plain_number(set.type.get()))
    throw error(set.path, "a float type", type_text(set.type.get()));
}

void Hdf5Source::require_texts(const Hdf5Dataset& set, std::size_t longest) const {
  if (set.type_class != H5T_STRING) throw error(set.path, "text", type_text(set.type.get()));
  const htri_t variable = H5Tis_variable_str(set.type.get());
  if (variable != 0 && rules_ == Hdf5Rules::kOwnFiles)
    throw error(set.path, "text of fixed length", "text of variable length");
  if (variable <= 0 && set.element_bytes > longest)
    throw error(set.path, fmt::format("texts of at most {} bytes", longest),
                fmt::format("{} bytes", set.element_bytes));
}

void Hdf5Source::require_small(const Hdf5Dataset& set) const {
  const std::int64_t size = product(set.shape, static_cast<std::int64_t>(set.element_bytes)), most = bytes();
  if (size < 0 || size > most)
    throw error(set.path, fmt::format("a size that a file of {} bytes can hold, to be read whole", most),
                fmt::format("a claim of {} elements of {} bytes", shape_text(set.shape), set.element_bytes));
}

}  // namespace rope
