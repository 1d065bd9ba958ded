#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profiler/audit_block.hpp"
#include "profiler/audit_statistics.hpp"
#include "profiler/cache_run.hpp"

namespace rope {

/// A pair by name.
struct NamedPair {
  AuditedPair values;
  std::string task, example_id;
  int layer = 0, head = 0;
  std::int64_t query_slot = 0, key_slot = 0, query_position = 0, key_position = 0;
};

/// Counts and statistics of the pairs of a head, a layer, or all of them.
struct AuditGroup {
  int layer = -1, head = -1;  ///< -1: all
  EnvelopeTally tally;
  AuditStatistics statistics;
};

/// Grids and sets of the layers that are alike; ranges over their examples and heads.
struct AuditLayers {
  std::vector<int> layers;
  std::string kind;
  std::int64_t pairs_min = 0, pairs_max = 0;  ///< rotating
  std::int64_t window_min = 0, window_max = 0, high_min = 0, high_max = 0;
  std::int64_t prefix_min = 0, prefix_max = 0;  ///< largest separated prefix (SeparationCheck)
  double delta_min = 0, scaled_min = 0;         ///< delta and M delta of sets H that are not empty; NaN: none
  bool geometric = true;                        ///< all grids
  bool satisfied = true, proved = true;         ///< all sets H that are not empty; false where there is none
};

struct AuditResult {
  std::int64_t all_pairs = 0, undefined = 0, non_finite = 0, without_distance = 0, evaluated_again = 0;
  AuditGroup all;
  std::vector<AuditGroup> layers, heads;  ///< that have pairs
  std::vector<AuditLayers> grids;
  NamedPair nearest, worst;  ///< values.pair < 0: none
  bool exact = true;         ///< quantiles and ranks are of all pairs, not of a sample
  std::int64_t sampled = 0;  ///< pairs that they are of
  double rank_error = 0;     ///< see PairSample
  double rounding_response = 0, rounding_norm_floor = 0;  ///< largest of the rounding bounds that were used
  double c = 0, epsilon = 0, needed = 0;                  ///< of Prop. 1: C, epsilon, 2 C / epsilon

  /// Inequalities broken beyond rounding, those of Prop. 1 where it is proved among them.
  std::int64_t violations() const {
    return all.tally.violations_response + all.tally.violations_norm_floor + all.tally.band.violations;
  }
};

struct AuditOptions {
  std::size_t exact_pairs = PairSample::kExactPairs;
  std::function<void(std::int64_t examples)> progress;  ///< called as examples are done
};

/// Gathers the blocks of a scan, which come in order. Apart from the scan so that tests can hand in blocks.
class AuditFold {
 public:
  AuditFold(const CacheRun& run, std::size_t exact_pairs);
  void add(const ScanBlock& block, const AuditBlock& result);
  AuditResult finish() const;

 private:
  void add_grid(const ScanBlock& block, const AuditGrid& grid);
  NamedPair named(const ScanBlock& block, const AuditedPair& pair) const;
  void set_groups(AuditResult& result) const;

  const CacheRun* run_;
  PairSample sample_;
  AuditResult result_;
  std::vector<EnvelopeTally> heads_;  // [set.heads()]
  std::map<int, AuditLayers> grids_;  // by layer
};

/// One pass over all pairs of the run's heads (theory §8; P Figure 7, D.1). Does not depend on threads or
/// memory.
AuditResult run_audit(const CacheRun& run, const AuditOptions& options = {});

/// The members of audit.schema.json that follow those of CacheRun::record.
void append_audit(const AuditResult& result, nlohmann::ordered_json& record);

/// "0-4, 6" for rising numbers.
std::string number_ranges(const std::vector<int>& numbers);

}  // namespace rope
