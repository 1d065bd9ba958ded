#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiler/model_header.hpp"

namespace rope {

enum class ElementType { kFloat16, kBfloat16, kFloat32, kFloat64 };
/// Bytes of one element, and relative rounding unit u (theory §3): bf16 2^-8, f16 2^-11, f32 2^-24, f64
/// 2^-53.
std::size_t element_size(ElementType type);
double rounding_unit(ElementType type);
const char* element_name(ElementType type);

/// One /tasks/<name> group of one file: shapes and attributes, all checked against each other.
struct TaskHeader {
  std::string name, family, source;
  std::int64_t nominal_length = 0;  ///< 0 = not given
  bool full_coverage = false;
  std::int64_t examples = 0;                    ///< E
  std::int64_t query_slots = 0, key_slots = 0;  ///< Nq, Nk
  int query_heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<int> layers;         ///< model layer of each slot of axis L, strictly increasing
  std::int64_t triplet_slots = 0;  ///< T of triplet_key_pair; 0 = default pairs
  bool has_example_id = false;
  bool assumed_layers = false;  ///< fewer layers than the model, and no dataset says which
  ElementType query_type = ElementType::kFloat16, key_type = ElementType::kFloat16;
};

/// Positions and triplets of one example.
struct ExampleSlots {
  std::vector<std::int64_t> query_position;  ///< [Nq], -1 unused
  std::vector<std::int64_t> key_position;    ///< [Nk], -1 unused
  std::vector<std::int64_t> triplets;        ///< [2T] key slot indexes, -1 unused; empty when T = 0
};

class StoredChunk;

/// Part of a block of vectors [heads, tokens, head_dim] that lies in one stored chunk.
struct ChunkPiece {
  std::shared_ptr<const StoredChunk> chunk;
  std::array<std::int64_t, 3> to{}, count{};  ///< place in the block and extent, in elements
  std::int64_t from = 0;                      ///< first element in the chunk
  std::array<std::int64_t, 2> step{};         ///< elements from head to head, from token to token there
};

/// Stored bytes of a block of vectors in native byte order, not yet converted.
struct RawBlock {
  ElementType type = ElementType::kFloat16;
  std::int64_t heads = 0, tokens = 0;
  int head_dim = 0;
  std::vector<std::byte> bytes;  ///< [heads, tokens, head_dim]; there once decoded
  /// What fetch_block has left to do: chunks to decode and copy, bytes to swap.
  std::vector<ChunkPiece> pieces;
  bool swapped = false;

  /// Does that. Not for two threads at once, but on any thread, without HDF5. Throws UserError for a damaged
  /// chunk.
  void decode();
  std::int64_t size() const;  ///< of `bytes`
  /// First element of (head, token).
  const std::byte* at(std::int64_t head, std::int64_t token) const;
};

/// Converts `count` elements to float64, exactly.
void convert_elements(ElementType type, const std::byte* from, std::size_t count, double* to);

/// What a check of `inspect` found.
struct CheckResult {
  std::string name;  ///< e.g. "/tasks/niah/query: shape"
  bool passed = true;
  std::string detail;  ///< "expected ..., found ..." where it did not pass, after the place if not in `name`
  std::string hint;    ///< what to try; may be empty
};

/// An activation cache, opened read-only (activation-format.md). Not thread-safe: one thread reads, others
/// compute. Treats the file as hostile: nothing is allocated by a number the file claims before that number
/// is checked against what the file can hold; links out of the file, virtual and external datasets are
/// refused.
class ActivationFile {
 public:
  /// Opens and checks /model and every task's shapes and types. Throws UserError (exit 3).
  explicit ActivationFile(const std::string& path);
  ~ActivationFile();
  ActivationFile(ActivationFile&&) noexcept;
  ActivationFile& operator=(ActivationFile&&) noexcept;

  /// Opens a file without throwing for what breaks the format: every check is listed instead (for `inspect`).
  /// Still throws UserError when the file is no HDF5 file at all.
  static std::vector<CheckResult> check(const std::string& path);

  const std::string& path() const;
  const ModelHeader& model() const;
  const std::vector<TaskHeader>& tasks() const;  ///< sorted by name
  const std::string& created_by() const;
  /// What is allowed but likely a mistake. None names the file, so that several files can share one.
  const std::vector<std::string>& warnings() const;

  /// Windows and ids of examples [first, first + count); ids default to the decimal row number.
  std::vector<std::int64_t> read_windows(const TaskHeader& task, std::int64_t first,
                                         std::int64_t count) const;
  std::vector<std::string> read_example_ids(const TaskHeader& task, std::int64_t first,
                                            std::int64_t count) const;
  /// Positions and triplets of one example, checked against each other and the window (throws UserError).
  /// `check_window`: every position < window; false under `--window`.
  ExampleSlots read_slots(const TaskHeader& task, std::int64_t example, std::int64_t window,
                          bool check_window) const;

  enum class Side { kQuery, kKey };
  /// Vectors of one example and layer slot, heads [first_head, first_head + heads), all token slots.
  void read_block(const TaskHeader& task, Side side, std::int64_t example, int layer_slot, int first_head,
                  int heads, RawBlock& block) const;
  /// Which vectors of an example. Of several layers: all heads, which then count on from layer to layer.
  struct Heads {
    int layer_slot = 0, layers = 1, first = 0, count = 0;
  };
  /// The same without the work that needs no file: RawBlock::decode does it.
  void fetch_block(const TaskHeader& task, Side side, std::int64_t example, const Heads& heads,
                   RawBlock& block) const;
  /// Decoded chunks that are kept because blocks to come may lie in them: of each side about so many bytes,
  /// and always one.
  void keep_chunks(std::int64_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rope
