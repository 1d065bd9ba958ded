#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "profiler/head_job.hpp"
#include "profiler/memory_gate.hpp"

namespace rope {

/// The window that counts for a layer of an example.
std::int64_t layer_window(const ScoringOptions& options, const LayerModel& layer, const SetExample& example);

/// Turns examples into jobs, one per wanted head, with their stored vectors. For one thread.
class ExampleReader {
 public:
  /// Vectors are read in pieces of at most about `piece` bytes (one key head and its queries at least), which
  /// are taken from `gate`.
  ExampleReader(const ActivationSet& set, const ScoringOptions& options, GridCache& grids, MemoryGate& gate,
                std::int64_t piece)
      : set_(&set), options_(&options), grids_(&grids), gate_(&gate), piece_(piece) {}

  /// A job that is open, and the index of its head in the set.
  using Emit = std::function<void(std::shared_ptr<HeadJob>, std::int64_t head)>;
  /// work: [set.heads()]. `before_wait` is called before it waits for memory: whoever holds jobs back hands
  /// them out then. False when the gate was closed. Throws UserError for unusable slots or unreadable
  /// vectors.
  bool read(const SetExample& example, std::span<const HeadWork> work, const Emit& emit,
            const std::function<void()>& before_wait);

  /// Bytes of an example that stay until all of its heads are done: positions and results.
  std::int64_t bytes_of(const SetExample& example) const;
  std::int64_t bytes_read() const { return bytes_read_; }  ///< of vectors, so far

 private:
  struct Piece;
  struct Part;
  bool read_part(Part& part, const Emit& emit, const std::function<void()>& before_wait);
  bool wanted(const Part& part, int slot, int kv) const;
  bool read_piece(const Part& part, const Piece& piece, const Emit& emit,
                  const std::function<void()>& before_wait);
  void change(HeadJob& job, const Grid& stored, const std::vector<double>& scale) const;
  std::int64_t kv_head_bytes(const TaskHeader& task) const;
  std::int64_t phase_bytes(const Part& part, const std::vector<const Grid*>& grids) const;
  std::shared_ptr<const SlotPhases> find_phases(const Grid& grid) const;
  void make_phases(const Part& part, const std::vector<const Grid*>& grids, MemoryLease& lease);

  const ActivationSet* set_;
  const ScoringOptions* options_;
  GridCache* grids_;
  MemoryGate* gate_;
  std::int64_t piece_, bytes_read_ = 0;
  std::vector<std::pair<const Grid*, std::shared_ptr<const SlotPhases>>> phases_;  // of the part, a few
};

}  // namespace rope
