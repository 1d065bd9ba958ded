#include "support/csv.hpp"

namespace rope::test {

std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record{""};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      record.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      record.emplace_back();
    } else if (!quoted && c == '\n') {
      records.push_back(record);
      record = {""};
    } else if (quoted || c != '\r') {
      record.back() += c;
    }
  }
  if (record.size() > 1 || !record[0].empty()) records.push_back(record);
  return records;
}

}  // namespace rope::test
