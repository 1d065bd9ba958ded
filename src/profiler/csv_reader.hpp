#pragma once

#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace rope {

/// Records of comma-separated text (RFC 4180) that may be hostile: quotes, doubled quotes and line breaks in
/// quotes, LF or CRLF, an UTF-8 byte order mark. Blank lines are skipped. One record at a time.
class CsvReader {
 public:
  /// `name` stands for the stream in messages.
  CsvReader(std::istream& from, std::string name) : from_(from), name_(std::move(name)) {}

  /// The next record; false at the end. Throws UserError "FILE:LINE: expected ..., found ..." for a quote
  /// that never ends or stands inside a field, for UTF-16, a lone carriage return, more than 4096 fields or a
  /// field beyond 64 MiB.
  bool next(std::vector<std::string>& fields);
  std::int64_t line() const { return line_; }  ///< where the record began, from 1
  std::string where() const { return name_ + ":" + std::to_string(line_); }

 private:
  int peek();  // the next byte, or end of file
  int take();
  void read_quoted(std::string& field);
  [[noreturn]] void fail(const std::string& expected, const std::string& found) const;

  std::istream& from_;
  std::string name_;
  std::int64_t line_ = 0, next_line_ = 1;
  bool started_ = false;
};

/// A CSV file with a header: rows of as many fields as the header has.
class CsvTableReader {
 public:
  /// Throws UserError when the file cannot be read or is empty.
  explicit CsvTableReader(const std::string& path);
  const std::vector<std::string>& columns() const { return columns_; }
  /// Index of a column; nothing where there is none. Throws UserError where two have the name.
  std::optional<std::size_t> find(const std::string& column) const;
  /// The same; throws UserError that lists the columns where there is none.
  std::size_t require(const std::string& column, const std::string& hint) const;
  /// The next row; false at the end. Throws UserError for a row of another length.
  bool next();
  const std::string& field(std::size_t column) const { return fields_[column]; }
  std::int64_t line() const { return reader_.line(); }
  std::string where() const { return reader_.where(); }

 private:
  std::string path_;
  std::ifstream file_;
  CsvReader reader_;
  std::vector<std::string> columns_, fields_;
};

}  // namespace rope
