#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profiler/cache_run.hpp"
#include "profiler/scanned_grids.hpp"
#include "spectral/band_agreement.hpp"
#include "spectral/score_law.hpp"

namespace rope {

/// What is pooled into one group; grids are kept apart in any case.
enum class BandBy { kPooled, kLayer, kGroup, kHead };

struct BandOptions {
  BandBy by = BandBy::kPooled;
  std::vector<std::int64_t> windows;  ///< in place of the examples' own, each on its own; empty: the run's
  std::vector<int> prefixes;          ///< sizes k of H_k whose score law is taken beside that of H(M)
  std::int64_t law_stride = 1;  ///< every so-manyth pair of a head enters the score law; 0: no score law
};

/// The score law of one choice of H.
struct BandLaw {
  std::string set;                          ///< "H(M)", or "prefix:K"
  std::int64_t size_min = 0, size_max = 0;  ///< pairs in H, over the examples
  std::int64_t left_out = 0;                ///< pairs (query, key) with U_H = 0
  spectral::ScoreLaw law;
};

/// Heads that are pooled.
struct BandGroup {
  std::size_t grid = 0;       ///< index into BandResult::grids
  int layer = -1, head = -1;  ///< -1: pooled over several; by kGroup the group's first layer
  std::vector<int> layers;    ///< rising
  std::int64_t window = 0;    ///< of BandOptions::windows; 0: the run's
  std::int64_t window_min = 0, window_max = 0;  ///< of the layers, as used
  spectral::PrefixSums sums;                    ///< over triplet margins, in places of falling frequency
  std::int64_t left_out = 0;  ///< triplets that are tied, undefined, non-finite, or beyond a norm of 1e150
  std::vector<BandLaw> laws;  ///< over pairs (query, key)
};

struct BandResult {
  std::vector<GridFacts> grids;
  std::vector<BandGroup> groups;  ///< by window, layer, head, grid
};

/// Theory §9 over the margins and pairs of a run's heads: R_var of every prefix, energy shares, score laws.
/// Heads with a window of one token are left out. progress: called for each block with the scan (0, 1, ...)
/// and its example. Memory: about 70 KB per group and score law.
BandResult measure_bands(const CacheRun& run, const BandOptions& options,
                         const std::function<void(int, std::size_t)>& progress);
/// Scans that measure_bands makes.
int band_scans(const BandOptions& options);

/// "pooled", "layer", "group", "head".
const char* band_by_name(BandBy by);

/// Pair (index among all pairs) and frequency at each place of falling frequency.
struct BandPlace {
  int pair = 0;
  double omega = 0;
};
std::vector<BandPlace> band_places(const GridFacts& grid);

/// Adds groups, prefixes, energy shares, score laws and breaks to the record of a run
/// (schemas/band.schema.json). threshold: of R, below which the agreement is said to break.
void add_bands(const BandResult& result, const BandOptions& options, double threshold,
               nlohmann::ordered_json& to);

}  // namespace rope
