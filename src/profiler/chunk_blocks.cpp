#include "profiler/chunk_blocks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rope {
namespace {

struct Overlap {
  std::int64_t first, count;  // along one axis
};

Overlap overlap(std::int64_t chunk_first, std::int64_t chunk_size, std::int64_t first, std::int64_t count) {
  const std::int64_t from = std::max(chunk_first, first);
  return {from, std::min(chunk_first + chunk_size, first + count) - from};
}

}  // namespace

std::shared_ptr<const StoredChunk> ChunkReader::chunk_at(const Origin& origin, bool keep) {
  if (const auto found = kept_.find(origin); found != kept_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second.place);
    return found->second.chunk;
  }
  std::vector<std::byte> stored;
  std::uint32_t skipped = 0;
  if (!source_->read_stored_chunk(*set_, origin, stored, skipped)) return nullptr;
  std::size_t size = set_->element_bytes;
  for (const std::int64_t side : set_->chunk) size *= static_cast<std::size_t>(side);
  auto chunk = std::make_shared<const StoredChunk>(
      std::move(stored), set_->filters, skipped, size, source_->path(),
      fmt::format("{}, chunk at [{}]", set_->path, fmt::join(origin, ", ")));
  if (!keep) return chunk;
  recent_.push_front(origin);
  kept_[origin] = {chunk, recent_.begin()};
  kept_bytes_ += static_cast<std::int64_t>(size);
  while (kept_bytes_ > limit_ && kept_.size() > 1) {
    kept_bytes_ -= static_cast<std::int64_t>(size);
    kept_.erase(recent_.back());
    recent_.pop_back();
  }
  return chunk;
}

bool ChunkReader::read(std::int64_t example, std::int64_t layer, std::int64_t first_head, std::int64_t heads,
                       std::vector<ChunkPiece>& pieces) {
  const std::vector<std::int64_t>& chunk = set_->chunk;
  const std::int64_t tokens = set_->shape[3], dim = set_->shape[4];
  const auto start = [&](std::int64_t at, std::size_t axis) { return at / chunk[axis] * chunk[axis]; };
  Origin origin{start(example, 0), start(layer, 1), 0, 0, 0};
  for (origin[2] = start(first_head, 2); origin[2] < first_head + heads; origin[2] += chunk[2])
    for (origin[3] = 0; origin[3] < tokens; origin[3] += chunk[3])
      for (origin[4] = 0; origin[4] < dim; origin[4] += chunk[4]) {
        const Overlap h = overlap(origin[2], chunk[2], first_head, heads),
                      t = overlap(origin[3], chunk[3], 0, tokens), d = overlap(origin[4], chunk[4], 0, dim);
        const bool more = chunk[0] > 1 || chunk[1] > 1 || h.count < chunk[2];
        ChunkPiece piece;
        piece.chunk = chunk_at(origin, more);
        if (!piece.chunk) return false;
        piece.to = {h.first - first_head, t.first, d.first};
        piece.count = {h.count, t.count, d.count};
        piece.step = {chunk[3] * chunk[4], chunk[4]};
        const std::int64_t row = (example - origin[0]) * chunk[1] + layer - origin[1];
        piece.from = ((row * chunk[2] + h.first - origin[2]) * chunk[3] + t.first - origin[3]) * chunk[4] +
                     d.first - origin[4];
        pieces.push_back(std::move(piece));
      }
  return true;
}

}  // namespace rope
