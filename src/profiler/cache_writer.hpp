#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "profiler/activation_file.hpp"
#include "profiler/model_header.hpp"

namespace rope {

/// How `query` and `key` of a task lie in the file.
struct CacheStorage {
  std::vector<std::int64_t> chunk;  ///< [5] over E, L, H, N, D; 0 = the whole axis; empty = contiguous
  int gzip = 0;                     ///< level 1 ... 9, 0 = none; this and the next three need chunks
  bool shuffle = false, fletcher32 = false, lzf = false;
  bool big_endian = false;
  bool bfloat16_bits = false;      ///< bfloat16 as uint16 with the attribute dtype, as NumPy users write it
  std::size_t fixed_id_bytes = 0;  ///< example_id as fixed strings of this many bytes; 0 = variable length
};

/// Writes an activation cache (activation-format.md, format 1) example by example; equal calls give equal
/// bytes (no time stamps). The vectors are stored as given: layout and rotation are the caller's. Writes
/// straight to `path`: hand it the partial_path() of an AtomicFile. Throws UserError when writing fails (disk
/// full, ...), std::logic_error on sizes that do not match the header.
class CacheWriter {
 public:
  CacheWriter(const std::string& path, const ModelHeader& model, const std::string& created_by = {});
  ~CacheWriter();
  CacheWriter(CacheWriter&&) noexcept;
  CacheWriter& operator=(CacheWriter&&) noexcept;

  /// Makes the group and its datasets; later put_example calls go to this task. The dataset `layer` is
  /// written where the layers are not 0 ... L-1, `example_id` where has_example_id, `triplet_key_pair` where
  /// triplet_slots > 0. The head counts and head_dim are those of the task header.
  void begin_task(const TaskHeader& task, const CacheStorage& storage = {});

  /// query [L, Hq, Nq, D], key [L, Hkv, Nk, D], rounded to the task's element types. `id` is ignored without
  /// has_example_id.
  void put_example(std::int64_t example, const std::string& id, std::int64_t window,
                   const ExampleSlots& slots, std::span<const double> query, std::span<const double> key);

  /// Closes the file; without it the destructor does, swallowing errors.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rope
