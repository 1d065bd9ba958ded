#include "profiler/lzf.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace rope {

bool lzf_decode(const std::uint8_t* from, std::size_t from_size, std::uint8_t* to, std::size_t size) {
  std::size_t in = 0, out = 0;
  while (in < from_size) {
    const unsigned control = from[in++];
    if (control < 32) {
      const std::size_t run = control + 1;
      if (run > from_size - in || run > size - out) return false;
      std::memcpy(to + out, from + in, run);
      in += run;
      out += run;
      continue;
    }
    std::size_t length = control >> 5;
    if (length == 7) {
      if (in == from_size) return false;
      length += from[in++];
    }
    length += 2;
    if (in == from_size) return false;
    const std::size_t back = ((control & 31u) << 8 | from[in++]) + 1u;
    if (back > out || length > size - out) return false;
    for (std::size_t i = 0; i < length; ++i) to[out + i] = to[out + i - back];  // may overlap: byte by byte
    out += length;
  }
  return out == size;
}

std::vector<std::uint8_t> lzf_encode(const std::uint8_t* from, std::size_t size) {
  constexpr std::size_t kReach = 8192, kLongest = 264;
  std::array<std::size_t, 1 << 14> seen;  // last place of a hash of three bytes
  seen.fill(size);
  std::vector<std::uint8_t> out;
  std::size_t literal = 0, at = 0;
  const auto flush = [&](std::size_t end) {
    while (literal < end) {
      const std::size_t run = std::min<std::size_t>(end - literal, 32);
      out.push_back(static_cast<std::uint8_t>(run - 1));
      out.insert(out.end(), from + literal, from + literal + run);
      literal += run;
    }
  };
  while (at + 2 < size && out.size() < size) {
    const std::uint32_t three = from[at] | from[at + 1] << 8 | from[at + 2] << 16;
    const std::size_t slot = three * 2654435761u >> 18;
    const std::size_t earlier = std::exchange(seen[slot], at);
    if (earlier >= at || at - earlier > kReach || std::memcmp(from + earlier, from + at, 3) != 0) {
      ++at;
      continue;
    }
    const std::size_t most = std::min(size - at, kLongest);
    std::size_t length = 3;
    while (length < most && from[earlier + length] == from[at + length]) ++length;
    flush(at);
    const std::size_t back = at - earlier - 1, code = length - 2;
    out.push_back(static_cast<std::uint8_t>(std::min<std::size_t>(code, 7) << 5 | back >> 8));
    if (code >= 7) out.push_back(static_cast<std::uint8_t>(code - 7));
    out.push_back(static_cast<std::uint8_t>(back & 255));
    at += length;
    literal = at;
  }
  flush(size);
  if (out.size() >= size) out.clear();
  return out;
}

namespace {

/// Largest chunk that the filter agrees to make: HDF5's own limit is 4 GiB, a reader's block here 1 GiB.
constexpr std::size_t kLargestChunk = std::size_t{1} << 30;

/// HDF5 filter: values are {filter revision, LZF version, chunk bytes}, as every LZF file has them.
std::size_t lzf_filter(unsigned flags, std::size_t value_count, const unsigned values[], std::size_t bytes,
                       std::size_t* buffer_size, void** buffer) {
  const auto* from = static_cast<const std::uint8_t*>(*buffer);
  std::vector<std::uint8_t> encoded;
  std::size_t size = 0;
  if ((flags & H5Z_FLAG_REVERSE) != 0) {
    if (value_count < 3 || values[2] == 0 || values[2] > kLargestChunk) return 0;
    size = values[2];
  } else {
    encoded = lzf_encode(from, bytes);
    size = encoded.size();
    if (size == 0) return 0;  // optional filter: HDF5 stores the chunk as it is
  }
  void* result = std::malloc(size);
  if (result == nullptr) return 0;
  if ((flags & H5Z_FLAG_REVERSE) != 0) {
    if (!lzf_decode(from, bytes, static_cast<std::uint8_t*>(result), size)) {
      std::free(result);
      return 0;
    }
  } else {
    std::memcpy(result, encoded.data(), size);
  }
  std::free(*buffer);
  *buffer = result;
  *buffer_size = size;
  return size;
}

herr_t set_values(hid_t plist, hid_t type, hid_t) {
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int rank = H5Pget_chunk(plist, H5S_MAX_RANK, chunk.data());
  std::size_t bytes = H5Tget_size(type);
  if (rank <= 0 || bytes == 0) return -1;
  for (int i = 0; i < rank; ++i) bytes *= chunk[static_cast<std::size_t>(i)];
  const std::array<unsigned, 3> values{4, 0x0105, static_cast<unsigned>(bytes)};
  return H5Pmodify_filter(plist, kLzfFilter, H5Z_FLAG_OPTIONAL, values.size(), values.data());
}

}  // namespace

void register_lzf() {
  static const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, kLzfFilter, 1,         1, "lzf",
                                      nullptr,          set_values, lzf_filter};
  static const bool done = H5Zregister(&filter) >= 0;
  static_cast<void>(done);
}

}  // namespace rope
