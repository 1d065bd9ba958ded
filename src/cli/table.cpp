#include <algorithm>
#include <ostream>
#include <stdexcept>

#include "cli/console.hpp"
#include "cli/text.hpp"

namespace rope::cli {
namespace {

constexpr std::size_t kGap = 2;  // spaces between columns

std::string aligned(const std::string& cell, std::size_t width, bool right) {
  const std::string space(width - display_width(cell), ' ');
  return right ? space + cell : cell + space;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::row(std::vector<std::string> cells, Style style) {
  if (cells.size() != columns_.size()) throw std::logic_error("a table row with the wrong number of cells");
  for (std::string& cell : cells) cell = printable(cell);
  rows_.emplace_back(std::move(cells), style);
}

void Table::print(const Console& console, std::ostream& to, bool for_err) const {
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(display_width(column.title));
  }
  for (const auto& [cells, style] : rows_)
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));

  const auto print_row = [&](const std::vector<std::string>& cells, Style style) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      line += aligned(cells[i], widths[i], columns_[i].right);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    to << console.styled(line, style, for_err) << '\n';
  };
  print_row(titles, Style::kBold);
  for (const auto& [cells, style] : rows_) print_row(cells, style);
}

}  // namespace rope::cli
