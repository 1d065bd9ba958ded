#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "profiler/profile_file.hpp"
#include "profiler/ranking.hpp"

namespace rope {

/// The text of R.json (schemas/ranking.schema.json): the ranking with what it was made from and how.
/// `file`: name, digest and size of the profile itself.
std::string ranking_json(const Ranking& ranking, const ProfileReader& profile, const ProfileInput& file);

/// Name, sha256 (null where it was not taken) and bytes: how every result lists what it was made from.
nlohmann::ordered_json input_json(const ProfileInput& input);

/// Reads R.json back; tasks with null ranks become Ranking::unranked_tasks. Treats the file as hostile:
/// throws UserError that names file and JSON path.
Ranking read_ranking_json(const std::string& path);

}  // namespace rope
