#include "profiler/csv_reader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "profiler/error.hpp"
#include "support/csv.hpp"

using namespace rope;
using namespace rope::test;

namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(const std::string& text) {
  std::istringstream in(text);
  CsvReader reader(in, "f");
  Rows rows;
  std::vector<std::string> fields;
  while (reader.next(fields)) rows.push_back(fields);
  return rows;
}

/// Message of the refusal; empty where the text is read.
std::string refusal(const std::string& text) {
  try {
    rows_of(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string escaped(const std::string& field, bool quote) {
  if (!quote && field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("CSV: quotes, line ends, blank lines, byte order mark") {
  CHECK(rows_of("").empty());
  CHECK(rows_of("\n\r\n\n").empty());
  CHECK(rows_of("a,b\n1,2\n") == Rows{{"a", "b"}, {"1", "2"}});
  CHECK(rows_of("a,b\r\n1,2") == Rows{{"a", "b"}, {"1", "2"}});
  CHECK(rows_of("\xef\xbb\xbf"
                "a\n\n\nb\n") == Rows{{"a"}, {"b"}});
  CHECK(rows_of("\"a,\"\"b\"\"\r\nc\",\"\"\n,\n") == Rows{{"a,\"b\"\r\nc", ""}, {"", ""}});
  CHECK(rows_of("\"\"\n") == Rows{{""}});
  CHECK(rows_of("a\r") == Rows{{"a"}});
  CHECK(rows_of(std::string("a\0b,c\n", 6)) == Rows{{std::string("a\0b", 3), "c"}});
}

TEST_CASE("CSV: what is no CSV is refused with its line") {
  CHECK(refusal("a\n\"b").find("f:2: expected the end of a quoted field") == 0);
  CHECK(refusal("a\n\"b\"c\n").find("f:2:") == 0);
  CHECK(refusal("a\nb\"c\n").find("f:2: expected a quote at the start of a field") == 0);
  CHECK(refusal("a\n\"b\"\"c\n").find("f:2:") == 0);
  CHECK(refusal("a\rb\n").find("f:1: expected LF or CRLF") == 0);
  CHECK(refusal("\xff\xfe"
                "a")
            .find("UTF-8") != std::string::npos);
  CHECK(refusal("\xef\x41"
                "a")
            .find("UTF-8") != std::string::npos);
  CHECK(refusal(std::string(5000, ',')).find("4096") != std::string::npos);
}

TEST_CASE("CSV: random records come back, and lines count the breaks inside quotes") {
  std::mt19937_64 generator(4);
  const std::string alphabet = "ab,\"\n\r 1";
  for (int round = 0; round < 300; ++round) {
    Rows rows(1 + generator() % 5);
    std::string text;
    std::vector<std::int64_t> lines;
    std::int64_t line = 1;
    for (auto& row : rows) {
      row.resize(1 + generator() % 4);
      lines.push_back(line);
      for (auto& field : row) {
        for (std::uint64_t n = generator() % 6; n > 0; --n) field += alphabet[generator() % alphabet.size()];
        line += std::count(field.begin(), field.end(), '\n');
        if (&field != &row[0]) text += ',';
        text += escaped(field, generator() % 2 == 0 || field.empty());
      }
      text += generator() % 2 ? "\n" : "\r\n";
      ++line;
    }
    CHECK(rows_of(text) == rows);
    CHECK(parse_csv(text) == rows);
    std::istringstream in(text);
    CsvReader reader(in, "f");
    std::vector<std::string> fields;
    for (const std::int64_t expected : lines) {
      REQUIRE(reader.next(fields));
      CHECK(reader.line() == expected);
    }
  }
}

TEST_SUITE_END();
