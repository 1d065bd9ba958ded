#include "profiler/stored_chunk.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "profiler/lzf.hpp"

namespace rope {
namespace {

bool is_compressor(int id) { return id == H5Z_FILTER_DEFLATE || id == kLzfFilter; }

bool inflate_exactly(const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  if (from.size() > std::numeric_limits<uInt>::max() || to.size() > std::numeric_limits<uInt>::max())
    return false;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));  // zlib does not write it
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(to.size());
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return whole;
}

/// All first bytes of the elements, then all second ones, ... back to elements; what is left over follows.
void unshuffle(const std::vector<std::byte>& from, std::size_t element, std::vector<std::byte>& to) {
  const std::size_t count = from.size() / element;
  to.resize(from.size());
  if (element == 2) {
    const std::byte *low = from.data(), *high = from.data() + count;
    for (std::size_t i = 0; i < count; ++i) {
      to[2 * i] = low[i];
      to[2 * i + 1] = high[i];
    }
  } else {
    for (std::size_t b = 0; b < element; ++b)
      for (std::size_t i = 0; i < count; ++i) to[i * element + b] = from[b * count + i];
  }
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(count * element), from.end(),
            to.begin() + static_cast<std::ptrdiff_t>(count * element));
}

/// Fletcher's sums over big-endian words of 16 bits, as HDF5 takes them.
std::uint32_t fletcher32(const std::vector<std::byte>& bytes, std::size_t size) {
  const auto at = [&](std::size_t i) { return i < size ? std::to_integer<std::uint32_t>(bytes[i]) : 0u; };
  std::uint32_t low = 0, high = 0;
  for (std::size_t i = 0; i < size; i += 2) {
    low = (low + (at(i) << 8 | at(i + 1))) % 65535;
    high = (high + low) % 65535;
  }
  return high << 16 | low;
}

/// Takes the sum off the end of the bytes; false where it is not theirs.
bool strip_checksum(const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  constexpr std::size_t kSum = 4;
  if (from.size() < kSum) return false;
  std::uint32_t stored = 0;
  for (std::size_t b = kSum; b-- > 0;)
    stored = stored << 8 | std::to_integer<std::uint32_t>(from[from.size() - kSum + b]);
  to.assign(from.begin(), from.end() - kSum);
  // Zero and 65535 are one remainder.
  const auto same = [](std::uint32_t a, std::uint32_t b) { return a % 65535 == b % 65535; };
  const std::uint32_t sum = fletcher32(to, to.size());
  return same(sum >> 16, stored >> 16) && same(sum & 0xffff, stored & 0xffff);
}

}  // namespace

bool can_decode_chunks(const Hdf5Dataset& set) {
  if (set.chunk.empty() || !set.filtered || !set.uniform_chunks) return false;
  int compressors = 0;
  for (const Hdf5Filter& filter : set.filters) {
    compressors += is_compressor(filter.id);
    if (!is_compressor(filter.id) && filter.id != H5Z_FILTER_SHUFFLE && filter.id != H5Z_FILTER_FLETCHER32)
      return false;
  }
  return compressors <= 1;
}

bool decode_chunk(std::span<const Hdf5Filter> filters, std::uint32_t skipped,
                  const std::vector<std::byte>& stored, std::size_t size, std::vector<std::byte>& decoded) {
  decoded = stored;
  std::vector<std::byte> before;
  for (std::size_t i = filters.size(); i-- > 0;) {
    if (i < 32 && (skipped >> i & 1) != 0) continue;
    before.swap(decoded);
    if (filters[i].id == H5Z_FILTER_SHUFFLE) {
      const std::size_t element = filters[i].value;
      if (element == 0) return false;
      unshuffle(before, element, decoded);
      continue;
    }
    if (filters[i].id == H5Z_FILTER_FLETCHER32) {
      if (!strip_checksum(before, decoded)) return false;
      continue;
    }
    decoded.resize(size);
    const bool whole = filters[i].id == H5Z_FILTER_DEFLATE
                           ? inflate_exactly(before, decoded)
                           : lzf_decode(reinterpret_cast<const std::uint8_t*>(before.data()), before.size(),
                                        reinterpret_cast<std::uint8_t*>(decoded.data()), size);
    if (!whole) return false;
  }
  return decoded.size() == size;
}

StoredChunk::StoredChunk(std::vector<std::byte> stored, std::vector<Hdf5Filter> filters,
                         std::uint32_t skipped, std::size_t size, std::string file, std::string place)
    : stored_(std::move(stored)),
      filters_(std::move(filters)),
      skipped_(skipped),
      size_(size),
      file_(std::move(file)),
      place_(std::move(place)) {}

const std::byte* StoredChunk::decoded() const {
  std::call_once(once_, [&] {
    if (!decode_chunk(filters_, skipped_, stored_, size_, decoded_))
      throw input_error(file_, place_, fmt::format("a chunk of {} bytes", size_),
                        "damage: its compressed data do not give that", "copy or write the file again");
    stored_ = {};
  });
  return decoded_.data();
}

}  // namespace rope
