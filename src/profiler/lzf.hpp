#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rope {

/// Number that the LZF filter has in the HDF5 registry (h5py's compression="lzf").
inline constexpr int kLzfFilter = 32000;

/// Decodes an LZF stream into exactly `size` bytes at `to`. False when the stream is damaged: it ends inside
/// an item, refers to bytes before the start, or does not give `size` bytes.
///
/// The stream is a row of items. Control byte c < 32: c + 1 literal bytes follow. Otherwise a copy of n + 2
/// earlier bytes, n = c >> 5, or 7 + the next byte where that is 7; it starts
/// ((c & 31) << 8 | last byte) + 1 bytes back and may overlap what it writes.
bool lzf_decode(const std::uint8_t* from, std::size_t from_size, std::uint8_t* to, std::size_t size);

/// Encodes; an empty result means that the stream would not be shorter than the input.
std::vector<std::uint8_t> lzf_encode(const std::uint8_t* from, std::size_t size);

/// Makes HDF5 know filter 32000 through the two functions above. Repeating it is harmless.
void register_lzf();

}  // namespace rope
