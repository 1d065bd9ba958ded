#pragma once

#include "cli/console.hpp"
#include "profiler/band_run.hpp"

namespace rope::cli {

/// The tables of `band`: the whole spectrum of each group where there are few, else a line per group.
/// sizes: prefixes that are shown; empty: some of all.
void print_bands(Console& console, const BandResult& result, const BandOptions& options, double threshold,
                 const std::vector<int>& sizes);

}  // namespace rope::cli
