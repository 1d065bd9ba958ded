#pragma once

#include "cli/console.hpp"
#include "profiler/length_run.hpp"

namespace rope::cli {

/// Rows of the tables of `length`: heads, or layers as means over their heads.
enum class LengthRows { kHeads, kLayers };

/// Virtual lengths, growth of attention lengths and attention patterns, one table each, as far as there is
/// something to show.
void print_lengths(const LengthReport& report, const LengthOptions& options, LengthRows rows,
                   Console& console);

}  // namespace rope::cli
