#include "profiler/activation_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "profiler/activation_header.hpp"
#include "profiler/chunk_blocks.hpp"
#include "profiler/element_convert.hpp"
#include "profiler/hdf5_guard.hpp"

namespace rope {

const std::byte* RawBlock::at(std::int64_t head, std::int64_t token) const {
  return bytes.data() + static_cast<std::size_t>((head * tokens + token) * head_dim) * element_size(type);
}

std::int64_t RawBlock::size() const {
  return heads * tokens * head_dim * static_cast<std::int64_t>(element_size(type));
}

void RawBlock::decode() {
  const auto element = static_cast<std::int64_t>(element_size(type));
  if (!pieces.empty()) bytes.resize(static_cast<std::size_t>(size()));
  for (const ChunkPiece& piece : pieces) {
    const std::byte* from = piece.chunk->decoded() + piece.from * element;
    for (std::int64_t h = 0; h < piece.count[0]; ++h)
      for (std::int64_t t = 0; t < piece.count[1]; ++t) {
        const std::int64_t row = (piece.to[0] + h) * tokens + piece.to[1] + t;
        std::memcpy(bytes.data() + (row * head_dim + piece.to[2]) * element,
                    from + (h * piece.step[0] + t * piece.step[1]) * element,
                    static_cast<std::size_t>(piece.count[2] * element));
      }
  }
  pieces.clear();
  if (swapped) swap_bytes(bytes.data(), bytes.size() / static_cast<std::size_t>(element), element_size(type));
  swapped = false;
}

struct ActivationFile::Impl {
  explicit Impl(const std::string& path) : source(path) {}
  static std::unique_ptr<Impl> load(const std::string& path, CheckLog& log);

  /// The datasets of a task; those of the last task asked for stay open (their chunk caches with them).
  const TaskData& open(const TaskHeader& task) {
    silence_hdf5();  // its setting is per thread, and the reading thread may have changed
    if (!current || current_name != task.name) {
      for (auto& chunks : side_chunks) chunks.reset();
      current.reset();
      current = std::make_unique<TaskData>(open_task(source, task));
      current_name = task.name;
      const Hdf5Dataset* sets[2] = {&current->query, &current->key};
      for (std::size_t side = 0; side < 2; ++side)
        if (can_decode_chunks(*sets[side]))
          side_chunks[side] = std::make_unique<ChunkReader>(source, *sets[side], kept_chunks);
    }
    return *current;
  }

  /// Pieces of a block out of compressed chunks; false where the library has to read it.
  bool fetch_chunks(int side, std::int64_t example, const Heads& heads, std::vector<ChunkPiece>& pieces) {
    ChunkReader* chunks = side_chunks[side].get();
    if (chunks == nullptr) return false;
    for (int layer = 0; layer < heads.layers; ++layer) {
      const std::size_t before = pieces.size();
      if (!chunks->read(example, heads.layer_slot + layer, heads.first, heads.count, pieces)) return false;
      for (std::size_t k = before; k < pieces.size(); ++k) pieces[k].to[0] += layer * heads.count;
    }
    return true;
  }

  Hdf5Source source;
  CacheContents contents;
  std::string current_name;
  std::unique_ptr<TaskData> current;
  std::int64_t kept_chunks = std::int64_t{64} << 20;
  std::unique_ptr<ChunkReader> side_chunks[2];  // of `current`: queries, keys; null: read by the library
};

namespace {

void require_range(std::int64_t first, std::int64_t count, std::int64_t size) {
  if (first < 0 || count < 0 || first > size || count > size - first)
    throw std::logic_error("activation file: rows out of range");
}

void check_examples(const Hdf5Source& source, const TaskHeader& task, const TaskData& data, CheckLog& log) {
  const std::string path = "/tasks/" + task.name;
  constexpr std::int64_t kBlock = 4096;
  const bool windows = log.run(path + "/window: values", [&] {
    for (std::int64_t first = 0; first < task.examples; first += kBlock)
      read_task_windows(source, data, first, std::min(kBlock, task.examples - first));
  });
  log.run(path + ": positions and triplets", [&] {
    std::vector<std::int64_t> block(kBlock, 0);
    for (std::int64_t e = 0; e < task.examples; ++e) {
      if (windows && e % kBlock == 0)
        block = read_task_windows(source, data, e, std::min(kBlock, task.examples - e));
      read_task_slots(source, task, data, e, block[static_cast<std::size_t>(e % kBlock)], windows);
    }
  });
}

}  // namespace

/// Opens a cache and reads what it says about itself.
std::unique_ptr<ActivationFile::Impl> ActivationFile::Impl::load(const std::string& path, CheckLog& log) {
  auto impl = std::make_unique<Impl>(path);
  impl->contents = read_contents(impl->source, log);
  for (const TaskHeader& task : impl->contents.tasks) {
    const std::string where = "/tasks/" + task.name;
    const TaskData* data = nullptr;
    if (!log.run(where + ": readable", [&] { data = &impl->open(task); })) continue;
    if (task.has_example_id)
      log.run(where + "/example_id: unique", [&] { check_unique_ids(impl->source, task, *data); });
  }
  return impl;
}

ActivationFile::ActivationFile(const std::string& path) {
  const auto load = [&] {
    CheckLog log(false);
    impl_ = Impl::load(path, log);
  };
  read_guarded(path, load);
}

ActivationFile::~ActivationFile() = default;
ActivationFile::ActivationFile(ActivationFile&&) noexcept = default;
ActivationFile& ActivationFile::operator=(ActivationFile&&) noexcept = default;

std::vector<CheckResult> ActivationFile::check(const std::string& path) {
  CheckLog log(true);
  std::unique_ptr<Impl> impl;
  const auto load = [&] { impl = Impl::load(path, log); };
  read_guarded(path, load);
  // Positions need no guard (hdf5_guard.hpp) and, in large chunks, more memory than it grants.
  for (const TaskHeader& task : impl->contents.tasks) {
    const TaskData* data = nullptr;
    try {
      data = &impl->open(task);
    } catch (const UserError&) {  // listed above
      continue;
    }
    check_examples(impl->source, task, *data, log);
  }
  return std::move(log.results);
}

const std::string& ActivationFile::path() const { return impl_->source.path(); }
const ModelHeader& ActivationFile::model() const { return impl_->contents.model; }
const std::vector<TaskHeader>& ActivationFile::tasks() const { return impl_->contents.tasks; }
const std::string& ActivationFile::created_by() const { return impl_->contents.created_by; }
const std::vector<std::string>& ActivationFile::warnings() const { return impl_->contents.warnings; }

std::vector<std::int64_t> ActivationFile::read_windows(const TaskHeader& task, std::int64_t first,
                                                       std::int64_t count) const {
  const auto lock = lock_hdf5();
  require_range(first, count, task.examples);
  return read_task_windows(impl_->source, impl_->open(task), first, count);
}

std::vector<std::string> ActivationFile::read_example_ids(const TaskHeader& task, std::int64_t first,
                                                          std::int64_t count) const {
  const auto lock = lock_hdf5();
  require_range(first, count, task.examples);
  return read_task_ids(impl_->source, impl_->open(task), first, count);
}

ExampleSlots ActivationFile::read_slots(const TaskHeader& task, std::int64_t example, std::int64_t window,
                                        bool check_window) const {
  const auto lock = lock_hdf5();
  require_range(example, 1, task.examples);
  return read_task_slots(impl_->source, task, impl_->open(task), example, window, check_window);
}

void ActivationFile::keep_chunks(std::int64_t bytes) {
  impl_->kept_chunks = bytes;
  const auto lock = lock_hdf5();
  for (auto& chunks : impl_->side_chunks) chunks.reset();
  impl_->current.reset();
}

void ActivationFile::read_block(const TaskHeader& task, Side side, std::int64_t example, int layer_slot,
                                int first_head, int heads, RawBlock& block) const {
  fetch_block(task, side, example, {layer_slot, 1, first_head, heads}, block);
  block.decode();
}

void ActivationFile::fetch_block(const TaskHeader& task, Side side, std::int64_t example, const Heads& heads,
                                 RawBlock& block) const {
  const bool query = side == Side::kQuery;
  const std::int64_t all = query ? task.query_heads : task.kv_heads;
  require_range(example, 1, task.examples);
  require_range(heads.layer_slot, heads.layers, std::ssize(task.layers));
  require_range(heads.first, heads.count, all);
  if (heads.layers > 1 && heads.count != all) throw std::logic_error("activation file: heads of some layers");
  auto lock = lock_hdf5();
  const TaskData& data = impl_->open(task);
  const Hdf5Dataset& set = query ? data.query : data.key;
  const H5T_order_t native = std::endian::native == std::endian::big ? H5T_ORDER_BE : H5T_ORDER_LE;
  block.type = query ? task.query_type : task.key_type;
  block.heads = std::int64_t{heads.layers} * heads.count;
  block.tokens = query ? task.query_slots : task.key_slots;
  block.head_dim = task.head_dim;
  block.pieces.clear();
  block.swapped = H5Tget_order(set.type.get()) != native;
  if (block.size() == 0) {
    block.bytes.clear();
    return;
  }
  if (impl_->fetch_chunks(query ? 0 : 1, example, heads, block.pieces)) return;
  block.pieces.clear();
  block.bytes.resize(static_cast<std::size_t>(block.size()));
  if (set.offset >= 0) {
    const std::int64_t head = (example * std::ssize(task.layers) + heads.layer_slot) * all + heads.first;
    lock.unlock();  // plain bytes
    impl_->source.read_bytes(set, set.offset + head * (block.size() / block.heads), block.bytes.size(),
                             block.bytes.data());
  } else {
    // The stored type on both sides: HDF5 then copies bytes; its own float conversion is a hundred times
    // slower than reading.
    impl_->source.read(set, set.type.get(), {example, heads.layer_slot, heads.first, 0, 0},
                       {1, heads.layers, heads.count, block.tokens, block.head_dim}, block.bytes.data());
  }
}

}  // namespace rope
