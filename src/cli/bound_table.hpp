#pragma once

#include <span>

#include "cli/console.hpp"
#include "profiler/context_bounds.hpp"

namespace rope::cli {

/// "0-3, 7" of a rising list.
std::string number_ranges(const std::vector<int>& numbers);

/// The tables of `bound`: one per grid, constants, tau and zeta, each followed by what it excludes; where
/// only zeta and tau of tasks differ, one line per task instead.
void print_bounds(Console& console, const BoundRequest& request, std::span<const BoundSeries> series);

}  // namespace rope::cli
