#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "profiler/hdf5_read.hpp"

namespace rope {

/// Undoes the filters of one chunk: shuffle, Fletcher32, and one of deflate and LZF. skipped: bit i for a
/// filter i that the chunk went without (HDF5's filter mask). False where the stream is damaged or does not
/// give exactly `size` bytes; no more than that is ever made, whatever the stream holds.
bool decode_chunk(std::span<const Hdf5Filter> filters, std::uint32_t skipped,
                  const std::vector<std::byte>& stored, std::size_t size, std::vector<std::byte>& decoded);

/// True for a chunked dataset all of whose filters decode_chunk knows.
bool can_decode_chunks(const Hdf5Dataset& set);

/// A chunk as it lies in the file, read by one thread and decoded by the first that needs it. The HDF5
/// library is not asked again: threads decode side by side.
class StoredChunk {
 public:
  /// place: file and HDF5 path, for messages.
  StoredChunk(std::vector<std::byte> stored, std::vector<Hdf5Filter> filters, std::uint32_t skipped,
              std::size_t size, std::string file, std::string place);

  /// Throws UserError when the chunk is damaged.
  const std::byte* decoded() const;
  std::size_t size() const { return size_; }

 private:
  mutable std::once_flag once_;
  mutable std::vector<std::byte> stored_, decoded_;
  std::vector<Hdf5Filter> filters_;
  std::uint32_t skipped_;
  std::size_t size_;
  std::string file_, place_;
};

}  // namespace rope
