#pragma once

#include <optional>
#include <string>
#include <vector>

#include "interventions/outcome.hpp"
#include "profiler/profile_file.hpp"

namespace rope {

/// A file of records, as the result names it.
struct OutcomeInput {
  ProfileInput file;
  std::string format;        ///< "csv", "jsonl", "lm-eval"
  std::int64_t records = 0;  ///< that were read from it
};

/// What a result was made from and how.
struct OutcomeSource {
  std::vector<OutcomeInput> inputs;
  std::vector<ProfileInput> plans;
  Settings settings;  ///< options that decided the numbers
};

/// The text of outcome.json (schemas/outcome.schema.json).
std::string outcome_json(const Outcome& outcome, const OutcomeSource& source);

/// Reads outcome.json back: `tasks` with every number, `left_out`, seed and resamples. Treats the file as
/// hostile: throws UserError that names file and JSON path.
Outcome read_outcome_json(const std::string& path);

}  // namespace rope
