#pragma once

#include <map>
#include <string>
#include <vector>

namespace rope::test {

/// A comma-separated table with a header line (RFC 4180).
struct CsvTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;

  std::size_t column(const std::string& name) const;  ///< throws std::out_of_range naming it
  const std::string& text(std::size_t row, const std::string& name) const;
  double number(std::size_t row, const std::string& name) const;  ///< NaN for an empty field
  /// Row numbers by the joined text of some columns; throws where two rows share one.
  std::map<std::string, std::size_t> index(const std::vector<std::string>& key) const;
  std::string key_of(std::size_t row, const std::vector<std::string>& key) const;
};

CsvTable parse_table(const std::string& text);
CsvTable read_table(const std::string& path);

}  // namespace rope::test
