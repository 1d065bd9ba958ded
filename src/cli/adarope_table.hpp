#pragma once

#include <iosfwd>

#include "cli/console.hpp"
#include "profiler/adarope_json.hpp"

namespace rope::cli {

/// What `adarope` prints: one table for each part of the result that is there.
void print_adarope(const AdaropeResult& result, const Console& console, std::ostream& to, bool for_err);

}  // namespace rope::cli
