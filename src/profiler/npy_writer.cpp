#include "profiler/npy_writer.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <ostream>

namespace rope::detail {
namespace {

constexpr std::uint32_t kReplacement = 0xfffd;

/// Code points of UTF-8 text; each byte that is not part of a valid sequence becomes U+FFFD.
std::vector<std::uint32_t> code_points(std::string_view text) {
  std::vector<std::uint32_t> points;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t more = lead < 0x80 ? 0 : lead >= 0xf0 && lead < 0xf5 ? 3 : lead >= 0xe0 ? 2 : 1;
    std::uint32_t point = lead < 0x80 ? lead : lead & (0x3fu >> more);
    bool valid = lead < 0x80 || (lead >= 0xc2 && lead < 0xf5 && i + more < text.size());
    for (std::size_t k = 1; valid && k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      valid = (next & 0xc0) == 0x80;
      point = point << 6 | (next & 0x3f);
    }
    constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
    valid = valid && point >= kSmallest[more] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
    points.push_back(valid ? point : kReplacement);
    i += valid ? more + 1 : 1;
  }
  return points;
}

void append_little(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

bool as_real(const TableColumn& column) {
  return column.type == CellType::kReal || (column.type == CellType::kInteger && column.may_be_empty);
}

std::string type_of(const TableColumn& column, std::size_t width) {
  if (column.type == CellType::kText) return "<U" + std::to_string(width);
  if (column.type == CellType::kBool) return "|b1";
  return as_real(column) ? "<f8" : "<i8";
}

void append_cell(std::string& bytes, const TableColumn& column, const Cell& cell, std::size_t width) {
  if (column.type == CellType::kText) {
    const auto* text = std::get_if<std::string>(&cell);
    auto points = code_points(text ? *text : "");
    points.resize(width, 0);
    for (const auto point : points) append_little(bytes, point, 4);
  } else if (column.type == CellType::kBool) {
    const auto* value = std::get_if<bool>(&cell);
    bytes += static_cast<char>(value && *value);
  } else if (as_real(column)) {
    double value = std::numeric_limits<double>::quiet_NaN();
    if (const auto* real = std::get_if<double>(&cell)) value = *real;
    if (const auto* integer = std::get_if<std::int64_t>(&cell)) value = static_cast<double>(*integer);
    append_little(bytes, std::bit_cast<std::uint64_t>(value), 8);
  } else {
    append_little(bytes, static_cast<std::uint64_t>(std::get<std::int64_t>(cell)), 8);
  }
}

/// Magic, version and header, padded so that the data starts at a multiple of 64.
std::string preamble(std::string header) {
  const bool long_header = header.size() + 80 > 0xffff;
  const std::size_t fixed = long_header ? 12 : 10;
  header.append((64 - (fixed + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += long_header ? '\2' : '\1';
  bytes += '\0';
  append_little(bytes, header.size(), long_header ? 4 : 2);
  return bytes + header;
}

}  // namespace

void write_npy(const TableSource& table, std::ostream& out) {
  std::vector<std::size_t> widths(table.columns.size(), 1);  // numpy has no <U0 in files
  std::uint64_t rows = 0;
  table.rows([&](std::span<const Cell> cells) {
    ++rows;
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (const auto* text = std::get_if<std::string>(&cells[i]))
        widths[i] = std::max(widths[i], code_points(*text).size());
  });

  std::string header = "{'descr': [";
  for (std::size_t i = 0; i < widths.size(); ++i)
    header += "('" + table.columns[i].name + "', '" + type_of(table.columns[i], widths[i]) + "'), ";
  header += "], 'fortran_order': False, 'shape': (" + std::to_string(rows) + ",), }";
  const std::string start = preamble(header);
  out.write(start.data(), static_cast<std::streamsize>(start.size()));

  std::string bytes;
  table.rows([&](std::span<const Cell> cells) {
    bytes.clear();
    for (std::size_t i = 0; i < cells.size(); ++i) append_cell(bytes, table.columns[i], cells[i], widths[i]);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  });
}

}  // namespace rope::detail
