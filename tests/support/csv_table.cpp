#include "support/csv_table.hpp"

#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "support/csv.hpp"

namespace rope::test {

std::size_t CsvTable::column(const std::string& name) const {
  for (std::size_t c = 0; c < columns.size(); ++c)
    if (columns[c] == name) return c;
  throw std::out_of_range("no column " + name);
}

const std::string& CsvTable::text(std::size_t row, const std::string& name) const {
  return rows.at(row).at(column(name));
}

double CsvTable::number(std::size_t row, const std::string& name) const {
  const std::string& field = text(row, name);
  return field.empty() ? std::numeric_limits<double>::quiet_NaN() : std::stod(field);
}

std::string CsvTable::key_of(std::size_t row, const std::vector<std::string>& key) const {
  std::string joined;
  for (const std::string& name : key) joined += text(row, name) + '\n';
  return joined;
}

std::map<std::string, std::size_t> CsvTable::index(const std::vector<std::string>& key) const {
  std::map<std::string, std::size_t> result;
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (!result.emplace(key_of(row, key), row).second)
      throw std::runtime_error("two rows for " + key_of(row, key));
  return result;
}

CsvTable parse_table(const std::string& text) {
  CsvTable table;
  table.rows = parse_csv(text);
  if (table.rows.empty()) throw std::runtime_error("a table without a header line");
  table.columns = table.rows.front();
  table.rows.erase(table.rows.begin());
  return table;
}

CsvTable read_table(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return parse_table(text.str());
}

}  // namespace rope::test
