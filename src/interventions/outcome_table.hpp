#pragma once

#include "interventions/outcome.hpp"
#include "profiler/table_format.hpp"

namespace rope {

/// The table `outcome` (columns: commands.md): one row per task and stage; accuracies and changes as shares.
TableSource outcome_table(Outcome outcome);

}  // namespace rope
