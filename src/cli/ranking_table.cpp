#include "cli/ranking_table.hpp"

#include <fmt/format.h>

#include <cmath>

namespace rope::cli {
namespace {

std::string fixed(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string interval(double low, double high) {
  return std::isnan(low) ? "-" : fmt::format("{:.3f} to {:.3f}", low, high);
}

Style style_of(Direction direction) {
  switch (direction) {
    case Direction::kSemantic:
      return Style::kCyan;
    case Direction::kPositional:
      return Style::kYellow;
    case Direction::kNone:
      break;
  }
  return Style::kDim;
}

}  // namespace

std::string counted(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void print_ranking(const Ranking& ranking, Console& console, std::ostream& to, bool for_err) {
  const bool intervals = ranking.resamples > 0;
  std::vector<Table::Column> columns{{"task"},         {"family"},         {"examples", true},
                                     {"window", true}, {"Semantic", true}, {"Positional", true},
                                     {"r_S", true},    {"r_P", true},      {"w_S", true}};
  if (intervals) columns.push_back({"w_S 95 %", true});
  columns.push_back({"direction"});
  if (intervals) columns.push_back({"P(direction)", true});
  Table table(columns);
  const auto add = [&](const RankedTask& task, bool ranked) {
    std::vector<std::string> cells{task.task,
                                   task.family,
                                   std::to_string(task.examples),
                                   fixed(task.window_mean, 0),
                                   short_number(task.semantic_score),
                                   short_number(task.positional_score),
                                   fixed(task.r_s, 0),
                                   fixed(task.r_p, 0),
                                   fixed(task.w_s, 4)};
    if (intervals) cells.push_back(interval(task.w_s_low, task.w_s_high));
    cells.push_back(ranked ? direction_name(task.direction) : "not ranked");
    if (intervals) cells.push_back(fixed(task.direction_probability, 3));
    table.row(std::move(cells), style_of(task.direction));
  };
  for (const RankedTask& task : ranking.tasks) add(task, true);
  for (const RankedTask& task : ranking.unranked_tasks) add(task, false);
  table.print(console, to, for_err);
}

}  // namespace rope::cli
