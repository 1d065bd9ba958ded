#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "profiler/head_scan.hpp"

namespace rope {

/// The frequencies that some layers turn by, for results that are per grid.
struct GridFacts {
  std::vector<double> omega;      ///< rotating pairs, all > 0
  std::vector<int> pair;          ///< [omega] index of each among all pairs; empty: 0, 1, ...
  double rho = 0;                 ///< theory §5
  std::string rope_type;          ///< "default", "llama3", ...
  double theta = 0;               ///< configured base; 0: not known
  std::vector<int> layers;        ///< rising; empty: from numbers
  std::int64_t layer_window = 0;  ///< longest window of these layers, 0: no limit
};

/// Numbers the grids of a scan as they first come, in a fold and so in canonical order. Frequencies and rho
/// tell them apart; attention factor and lanes do not.
class ScannedGrids {
 public:
  std::size_t number(const ScanBlock& block, const SetHead& head);
  /// With their layers so far.
  std::vector<GridFacts> facts() const;

 private:
  struct Seen {
    GridFacts facts;
    std::set<int> layers;
    bool unlimited = false;
  };
  std::vector<Seen> seen_;
};

}  // namespace rope
