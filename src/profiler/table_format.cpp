#include "profiler/table_format.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "profiler/error.hpp"
#include "profiler/npy_writer.hpp"

namespace rope {
namespace {

std::string digits(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_cell(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return csv_text(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&cell)) return std::isnan(*real) ? "" : digits(*real);
  if (const auto* boolean = std::get_if<bool>(&cell)) return *boolean ? "true" : "false";
  return "";
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_cell(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return json_text(*text);
  if (const auto* real = std::get_if<double>(&cell)) return std::isfinite(*real) ? digits(*real) : "null";
  const std::string plain = csv_cell(cell);
  return plain.empty() ? "null" : plain;
}

void write_csv(const TableSource& table, std::ostream& out) {
  std::string line;
  for (const auto& column : table.columns) line += (line.empty() ? "" : ",") + csv_text(column.name);
  out << line << '\n';
  table.rows([&](std::span<const Cell> cells) {
    line.clear();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += ',';
      line += csv_cell(cells[i]);
    }
    out << line << '\n';
  });
}

void write_jsonl(const TableSource& table, std::ostream& out) {
  std::vector<std::string> names;
  for (const auto& column : table.columns) names.push_back(json_text(column.name) + ":");
  std::string line;
  table.rows([&](std::span<const Cell> cells) {
    line = "{";
    for (std::size_t i = 0; i < cells.size(); ++i)
      line += (i > 0 ? "," : "") + names[i] + json_cell(cells[i]);
    out << line << "}\n";
  });
}

}  // namespace

TableFormat parse_table_format(std::string_view text) {
  if (text == "csv") return TableFormat::kCsv;
  if (text == "jsonl") return TableFormat::kJsonl;
  if (text == "npy") return TableFormat::kNpy;
  throw usage_error("unknown format \"" + std::string(text) + "\"", "csv, jsonl or npy");
}

void write_table(const TableSource& table, TableFormat format, std::ostream& out) {
  switch (format) {
    case TableFormat::kCsv:
      return write_csv(table, out);
    case TableFormat::kJsonl:
      return write_jsonl(table, out);
    case TableFormat::kNpy:
      return detail::write_npy(table, out);
  }
}

}  // namespace rope
