#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiler/profile_file.hpp"
#include "profiler/ranking.hpp"
#include "profiler/table_format.hpp"

namespace rope {

/// Names of the tables of a profile: tasks, heads, examples, frequencies, selection, ranking.
const std::vector<std::string>& profile_table_names();

/// A table of a profile (columns: commands.md). The profile must outlive it. `ranking` is made at once, with
/// `options`; the others read the profile by blocks. Throws UserError (usage) for an unknown name.
TableSource profile_table(const ProfileReader& profile, std::string_view name,
                          const BootstrapOptions& options);

/// The table `ranking`: ranked tasks, then the tasks without both scores.
TableSource ranking_table(Ranking ranking);

}  // namespace rope
