#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rope {

enum class CellType { kText, kInteger, kReal, kBool };

struct TableColumn {
  std::string name;
  CellType type = CellType::kReal;
  bool may_be_empty = false;  ///< an integer that NPY then stores as float64, NaN = empty
};

/// Nothing, or a value of the column's type. NaN counts as nothing.
using Cell = std::variant<std::monostate, std::string, std::int64_t, double, bool>;
using RowSink = std::function<void(std::span<const Cell>)>;

/// A table whose rows are made one after the other, as often as asked.
struct TableSource {
  std::vector<TableColumn> columns;
  std::function<void(const RowSink&)> rows;
};

enum class TableFormat { kCsv, kJsonl, kNpy };
TableFormat parse_table_format(std::string_view text);  ///< throws UserError (usage)

/// Writes a table as it is made: memory does not grow with its rows.
/// CSV: header, comma, LF, quotes where needed (RFC 4180), empty = no value, numbers with the fewest digits
/// that read back the same. JSON lines: one object a line, null = no value. NPY: one-dimensional structured
/// array for numpy.load without pickle; text as <U of the longest, NaN = no value (two passes over the rows).
void write_table(const TableSource& table, TableFormat format, std::ostream& out);

}  // namespace rope
