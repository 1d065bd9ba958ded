#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/json_document.hpp"
#include "profiler/table_format.hpp"

namespace rope {

/// A member of every row of a table in a JSON result.
struct JsonColumn {
  const char* name;
  CellType type = CellType::kReal;
  bool may_be_empty = false;  ///< of an integer: it can be null
  /// The member is a list: the table has one row per place in it, and other columns repeat. All lists of a
  /// row have the same length; null and an empty list are none.
  bool list = false;
};

/// A table that lies in the JSON of a command as an array of objects.
struct JsonTable {
  const char* format;   ///< of the document, "rope-profiler/audit"
  const char* command;  ///< that writes it, for hints
  const char* name;     ///< of `export --table`
  const char* array;    ///< JSON pointer of the array
  std::vector<JsonColumn> columns;
};

/// Tables of what audit, band, bound, length and adarope write.
const std::vector<JsonTable>& json_tables();
/// Those of one format; empty for a format that has none.
std::vector<const JsonTable*> json_tables_of(std::string_view format);

/// Rows of the table, null as no value. Throws UserError that names file and JSON path where the document is
/// not as its command writes it; members beyond the columns are left alone.
TableSource json_table(std::shared_ptr<const JsonDocument> document, const JsonTable& table);

}  // namespace rope
