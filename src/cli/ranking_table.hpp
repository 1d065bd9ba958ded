#pragma once

#include <ostream>
#include <string>

#include "cli/console.hpp"
#include "profiler/ranking.hpp"

namespace rope::cli {

/// The tasks of a ranking as an aligned table, those without both scores last. Intervals where it has them.
void print_ranking(const Ranking& ranking, Console& console, std::ostream& to, bool for_err);

/// "3 tasks", "1 task".
std::string counted(std::size_t count, const std::string& noun);

}  // namespace rope::cli
