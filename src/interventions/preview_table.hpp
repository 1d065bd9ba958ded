#pragma once

#include "interventions/plan.hpp"
#include "profiler/table_format.hpp"

namespace rope {

/// `export --table preview` (columns: commands.md, docs/tables.md): the preview rows of every task, in the
/// plan's order.
TableSource preview_table(const Plan& plan);

}  // namespace rope
