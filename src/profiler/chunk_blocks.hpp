#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/stored_chunk.hpp"

namespace rope {

/// Reads the chunks of one dataset of vectors [examples, layers, heads, tokens, head_dim] as they are stored.
/// Chunks that hold more than the block that needed them are kept for the next ones. For one thread, under
/// lock_hdf5().
class ChunkReader {
 public:
  /// bytes: of decoded chunks that are kept; always one.
  ChunkReader(const Hdf5Source& source, const Hdf5Dataset& set, std::int64_t bytes)
      : source_(&source), set_(&set), limit_(bytes) {}

  /// Pieces of the block at [example, layer, first_head, 0, 0]. False when a chunk of it was never written:
  /// the library then knows what to put there.
  bool read(std::int64_t example, std::int64_t layer, std::int64_t first_head, std::int64_t heads,
            std::vector<ChunkPiece>& pieces);

 private:
  using Origin = std::vector<std::int64_t>;
  std::shared_ptr<const StoredChunk> chunk_at(const Origin& origin, bool keep);

  const Hdf5Source* source_;
  const Hdf5Dataset* set_;
  std::int64_t limit_, kept_bytes_ = 0;
  struct Kept {
    std::shared_ptr<const StoredChunk> chunk;
    std::list<Origin>::iterator place;
  };
  std::list<Origin> recent_;  // last used first
  std::map<Origin, Kept> kept_;
};

}  // namespace rope
