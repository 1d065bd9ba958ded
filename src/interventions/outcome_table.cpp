#include "interventions/outcome_table.hpp"

#include <limits>

namespace rope {
namespace {

using Cells = std::vector<Cell>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TableColumn text(const char* name) { return {name, CellType::kText}; }
TableColumn integer(const char* name) { return {name, CellType::kInteger}; }
TableColumn real(const char* name) { return {name, CellType::kReal}; }

Cell direction_cell(const std::optional<Direction>& direction) {
  return direction ? Cell(std::string(direction_name(*direction))) : Cell();
}

void emit(const TaskOutcome& task, const RowSink& sink) {
  const CandidateOutcome* best =
      task.best >= 0 ? &task.candidates[static_cast<std::size_t>(task.best)] : nullptr;
  const Cells cells{task.task,
                    direction_cell(task.direction),
                    std::int64_t{task.stage},
                    task.matched,
                    task.baseline_accuracy,
                    best ? Cell(best->candidate) : Cell(),
                    best ? Cell(best->accuracy) : Cell(),
                    task.best_change,
                    task.held_out_change,
                    task.p_value,
                    task.improved ? Cell(*task.improved) : Cell(),
                    task.p_holm,
                    task.planned,
                    task.optimism,
                    task.best_change_low,
                    task.best_change_high,
                    best ? Cell(best->gained) : Cell(),
                    best ? Cell(best->lost) : Cell(),
                    best ? best->change_low : kNaN,
                    best ? best->change_high : kNaN};
  sink(cells);
}

}  // namespace

TableSource outcome_table(Outcome outcome) {
  TableSource table;
  table.columns = {text("task"),
                   text("direction"),
                   integer("stage"),
                   integer("matched"),
                   real("baseline_accuracy"),
                   text("best_candidate"),
                   real("best_accuracy"),
                   real("best_change"),
                   real("held_out_change"),
                   real("p_value"),
                   {"improved", CellType::kBool},
                   real("p_holm"),
                   integer("planned"),
                   real("optimism"),
                   real("best_change_low"),
                   real("best_change_high"),
                   {"gained", CellType::kInteger, true},
                   {"lost", CellType::kInteger, true},
                   real("change_low"),
                   real("change_high")};
  table.rows = [outcome = std::move(outcome)](const RowSink& sink) {
    for (const TaskOutcome& task : outcome.tasks) emit(task, sink);
  };
  return table;
}

}  // namespace rope
