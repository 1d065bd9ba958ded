#include "profiler/json_tables.hpp"

#include <optional>

namespace rope {
namespace {

using Json = JsonDocument::Json;

const char* described(const JsonColumn& column) {
  switch (column.type) {
    case CellType::kText:
      return "text or null";
    case CellType::kInteger:
      return column.may_be_empty ? "a whole number or null" : "a whole number";
    case CellType::kReal:
      return "a number or null";
    case CellType::kBool:
      return "true, false or null";
  }
  return "";
}

bool empty_allowed(const JsonColumn& column) {
  return column.type != CellType::kInteger || column.may_be_empty;
}

std::optional<Cell> cell_of(const Json& value, const JsonColumn& column) {
  if (value.is_null()) return empty_allowed(column) ? std::optional<Cell>(Cell()) : std::nullopt;
  switch (column.type) {
    case CellType::kText:
      if (value.is_string()) return Cell(value.get<std::string>());
      break;
    case CellType::kInteger:
      if (value.is_number_integer() &&
          !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62))
        return Cell(value.get<std::int64_t>());
      break;
    case CellType::kReal:
      if (value.is_number()) return Cell(value.get<double>());
      break;
    case CellType::kBool:
      if (value.is_boolean()) return Cell(value.get<bool>());
      break;
  }
  return std::nullopt;
}

/// The array of rows, member by member, so that a mistake is named.
const Json& array_at(const JsonDocument& document, const std::string& pointer) {
  const Json* at = &document.root();
  std::string place;
  std::size_t start = 1;
  while (true) {
    const std::size_t slash = pointer.find('/', start);
    const std::string name = pointer.substr(start, slash - start);
    if (slash == std::string::npos) return document.array(*at, place, name.c_str());
    at = &document.member(*at, place, name.c_str());
    place += "/" + name;
    start = slash + 1;
  }
}

class Rows {
 public:
  Rows(const JsonDocument& document, const JsonTable& table)
      : document_(document), table_(table), rows_(array_at(document, table.array)) {}

  void write(const RowSink& sink) const {
    std::vector<Cell> cells(table_.columns.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const std::string place = std::string(table_.array) + "/" + std::to_string(r);
      std::vector<const Json*> lists(cells.size(), nullptr);
      const std::optional<std::size_t> length = fill(rows_[r], place, cells, lists);
      if (!length) {
        sink(cells);
        continue;
      }
      for (std::size_t i = 0; i < *length; ++i) {
        for (std::size_t c = 0; c < cells.size(); ++c)
          if (lists[c] != nullptr)
            cells[c] = cell((*lists[c])[i], table_.columns[c],
                            place + "/" + table_.columns[c].name + "/" + std::to_string(i));
        sink(cells);
      }
    }
  }

 private:
  Cell cell(const Json& value, const JsonColumn& column, const std::string& place) const {
    std::optional<Cell> result = cell_of(value, column);
    if (!result) document_.fail(place, described(column), value.type_name());
    return *std::move(result);
  }

  // The cells of a row; lists go to `lists`, their common length comes back. Nothing where the table has
  // none.
  std::optional<std::size_t> fill(const Json& row, const std::string& place, std::vector<Cell>& cells,
                                  std::vector<const Json*>& lists) const {
    std::optional<std::size_t> length;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const JsonColumn& column = table_.columns[c];
      const Json& value = document_.member(row, place, column.name);
      if (!column.list) {
        cells[c] = cell(value, column, place + "/" + column.name);
        continue;
      }
      if (!value.is_array() && !value.is_null())
        document_.fail(place + "/" + column.name, "an array or null", value.type_name());
      if (length && *length != value.size())
        document_.fail(place + "/" + column.name, std::to_string(*length) + " values",
                       std::to_string(value.size()));
      length = value.size();
      lists[c] = &value;
    }
    return length;
  }

  const JsonDocument& document_;
  const JsonTable& table_;
  const Json& rows_;
};

}  // namespace

std::vector<const JsonTable*> json_tables_of(std::string_view format) {
  std::vector<const JsonTable*> tables;
  for (const JsonTable& table : json_tables())
    if (format == table.format) tables.push_back(&table);
  return tables;
}

TableSource json_table(std::shared_ptr<const JsonDocument> document, const JsonTable& table) {
  document->require_format(table.format, 1);
  TableSource source;
  for (const JsonColumn& column : table.columns)
    source.columns.push_back({column.name, column.type, column.may_be_empty});
  source.rows = [document = std::move(document), &table](const RowSink& sink) {
    Rows(*document, table).write(sink);
  };
  return source;
}

}  // namespace rope
