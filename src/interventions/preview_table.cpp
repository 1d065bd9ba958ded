#include "interventions/preview_table.hpp"

namespace rope {
namespace {

using Cells = std::vector<Cell>;

std::string name_of(std::size_t score) { return preview_score_name(static_cast<PreviewScore>(score)); }

Cells cells_of(const PlanTask& task, const PreviewRow& row) {
  Cells cells{std::int64_t{task.stage}, task.task, row.candidate()};
  for (const PreviewValue& score : row.score) {
    cells.emplace_back(score.value);
    cells.emplace_back(score.change);
  }
  for (const PreviewValue& score : row.score) {
    cells.emplace_back(score.change_low);
    cells.emplace_back(score.change_high);
  }
  const bool rescale = row.intervention && row.intervention->operation == Operation::kRescale;
  cells.push_back(row.intervention ? Cell(std::string(operation_name(row.intervention->operation))) : Cell());
  cells.push_back(rescale ? Cell(row.intervention->alpha) : Cell());
  cells.emplace_back(row.in_plan);
  cells.emplace_back(row.in_sweep);
  cells.emplace_back(row.examples);
  return cells;
}

}  // namespace

TableSource preview_table(const Plan& plan) {
  TableSource table;
  table.columns = {{"stage", CellType::kInteger}, {"task", CellType::kText}, {"candidate", CellType::kText}};
  for (std::size_t s = 0; s < kPreviewScores; ++s)
    for (const char* what : {"", "_change"}) table.columns.push_back({name_of(s) + what, CellType::kReal});
  for (std::size_t s = 0; s < kPreviewScores; ++s)
    for (const char* what : {"_change_low", "_change_high"})
      table.columns.push_back({name_of(s) + what, CellType::kReal});
  table.columns.push_back({"operation", CellType::kText});
  table.columns.push_back({"alpha", CellType::kReal});
  table.columns.push_back({"in_plan", CellType::kBool});
  table.columns.push_back({"in_sweep", CellType::kBool});
  table.columns.push_back({"examples", CellType::kInteger});
  table.rows = [tasks = plan.tasks](const RowSink& sink) {
    for (const PlanTask& task : tasks)
      for (const PreviewRow& row : task.preview) sink(cells_of(task, row));
  };
  return table;
}

}  // namespace rope
