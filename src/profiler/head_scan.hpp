#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "profiler/example_scorer.hpp"

namespace rope {

/// What the blocks of a scan are made of.
enum class ScanUnit {
  kPairs,     ///< kPairBlock pairs (query, key): what score_pairs takes
  kTriplets,  ///< kTripletBlock triplets: what score_triplets takes
  kQueries,   ///< some used queries, with all their keys
  kHead,      ///< a whole head
};

/// A part of one head of one example, with all that is needed to compute on it.
struct ScanBlock {
  std::size_t example = 0;  ///< index into the examples of the scan
  std::int64_t head = 0;    ///< index into ActivationSet::heads()
  /// setting, slots, phases and grid (window, H(M), moments, plan) of the head; its vectors are decoded.
  std::shared_ptr<const HeadJob> job;
  /// Number of the block within its head, and its units [first, first + count): pairs, triplets or used
  /// queries in the order of PartSlots; 0 and 1 for a whole head.
  std::int64_t index = 0, first = 0, count = 0;
  bool last = false;  ///< the last block of its head
};

/// What the work on a block leaves for the fold.
struct ScanResult {
  virtual ~ScanResult() = default;
};

struct ScanOptions {
  ScanUnit unit = ScanUnit::kPairs;
  std::int64_t queries_per_block = 64;  ///< of ScanUnit::kQueries
};

/// Called by several threads at once. OpenMP is set to one thread in them.
using ScanWork = std::function<std::unique_ptr<ScanResult>(const ScanBlock&)>;
/// Called by the thread that called scan_heads, in canonical order: examples as given, heads layer-major,
/// blocks rising. A sum taken here is the same for any number of threads.
using ScanFold = std::function<void(const ScanBlock&, std::unique_ptr<ScanResult>)>;

/// Walks over the pairs, triplets or queries of heads: one thread reads ahead, resources.threads compute, the
/// caller folds. Reads window, window_cap, split and changes of `scoring`. A head without rotating pairs has
/// no blocks, nor has an example that does not store it. heads: [set.heads()], not 0 for those that are
/// wanted. Memory: the vectors under way, bounded by resources.memory, and some hundred results that wait for
/// their turn. Blocks must not outlive the call. Throws what work and fold throw, and UserError for unusable
/// slots or vectors that cannot be read.
void scan_heads(const ActivationSet& set, const ScoringOptions& scoring, const ScoringResources& resources,
                std::span<const SetExample* const> examples, std::span<const char> heads,
                const ScanOptions& options, const ScanWork& work, const ScanFold& fold);

}  // namespace rope
