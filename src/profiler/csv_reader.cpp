#include "profiler/csv_reader.hpp"

#include <algorithm>
#include <filesystem>

#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"

namespace rope {
namespace {

constexpr std::size_t kMostFields = 4096, kLongestField = std::size_t{1} << 26;
constexpr int kEnd = std::char_traits<char>::eof();

std::string counted_fields(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " field" : " fields");
}

}  // namespace

void CsvReader::fail(const std::string& expected, const std::string& found) const {
  throw UserError(
      where() + ": expected " + expected + ", found " + found,
      "comma-separated values as in RFC 4180: a field with a quote, comma or line break is quoted, a "
      "quote in it doubled");
}

int CsvReader::peek() {
  try {
    return from_.rdbuf()->sgetc();
  } catch (const std::ios_base::failure&) {
    throw UserError(name_ + ": cannot be read", "is it a file?");
  }
}

int CsvReader::take() {
  const int c = peek();
  if (c != kEnd) from_.rdbuf()->sbumpc();
  next_line_ += c == '\n';
  return c;
}

/// The rest of a quoted field and its closing quote.
void CsvReader::read_quoted(std::string& field) {
  for (;;) {
    const int c = take();
    if (c == kEnd) fail("the end of a quoted field", "the end of the file");
    if (c == '"' && peek() != '"') break;
    if (c == '"') take();
    field += static_cast<char>(c);
    if (field.size() > kLongestField) fail("fields of at most 64 MiB", "a longer one");
  }
  const int after = peek();
  if (after != ',' && after != '\n' && after != '\r' && after != kEnd)
    fail("a comma or the end of the line after a quoted field", "more text");
}

bool CsvReader::next(std::vector<std::string>& fields) {
  if (!std::exchange(started_, true)) {
    const int first = peek();
    line_ = 1;
    if (first == 0xff || first == 0xfe) fail("UTF-8 text", "another encoding");
    if (first == 0xef) {
      take();
      if (take() != 0xbb || take() != 0xbf) fail("UTF-8 text", "another encoding");
    }
  }
  fields.clear();
  std::string field;
  bool was_quoted = false;
  line_ = next_line_;
  for (;;) {
    int c = take();
    if (c == '\r') {
      if (peek() != '\n' && peek() != kEnd) fail("LF or CRLF at the end of a line", "CR alone");
      c = take();
    }
    if (c == ',' || c == '\n' || c == kEnd) {
      const bool blank = fields.empty() && field.empty() && !was_quoted;
      if (c == kEnd && blank) return false;
      if (c == '\n' && blank) {
        line_ = next_line_;
        continue;
      }
      fields.push_back(std::move(field));
      if (fields.size() > kMostFields) fail("at most 4096 fields", "more");
      field.clear();
      was_quoted = false;
      if (c != ',') return true;
    } else if (c == '"') {
      if (!field.empty() || was_quoted) fail("a quote at the start of a field", "one inside it");
      was_quoted = true;
      read_quoted(field);
    } else {
      field += static_cast<char>(c);
      if (field.size() > kLongestField) fail("fields of at most 64 MiB", "a longer one");
    }
  }
}

CsvTableReader::CsvTableReader(const std::string& path)
    : path_(path), file_(path, std::ios::binary), reader_(file_, path) {
  if (!file_) throw UserError(path + ": cannot open", "check the file's name");
  if (!reader_.next(columns_)) throw UserError(path + ": expected a header line, found an empty file");
}

std::optional<std::size_t> CsvTableReader::find(const std::string& column) const {
  const auto at = std::find(columns_.begin(), columns_.end(), column);
  if (at == columns_.end()) return std::nullopt;
  if (std::find(at + 1, columns_.end(), column) != columns_.end())
    throw UserError(path_ + ":1: expected one column " + rope::quoted(column) + ", found two");
  return static_cast<std::size_t>(at - columns_.begin());
}

std::size_t CsvTableReader::require(const std::string& column, const std::string& hint) const {
  if (const auto found = find(column)) return *found;
  constexpr std::size_t kShown = 12;
  std::string list;
  for (std::size_t i = 0; i < std::min(columns_.size(), kShown); ++i)
    list += (i > 0 ? ", " : "") + rope::quoted(columns_[i]);
  if (columns_.size() > kShown) list += " and more";
  throw UserError(path_ + ":1: expected a column " + rope::quoted(column) + ", found " + list, hint);
}

bool CsvTableReader::next() {
  if (!reader_.next(fields_)) return false;
  if (fields_.size() != columns_.size())
    throw UserError(where() + ": expected " + counted_fields(columns_.size()) + " as in the header, found " +
                    std::to_string(fields_.size()));
  return true;
}

}  // namespace rope
