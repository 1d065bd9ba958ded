#include "interventions/record_fields.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "interventions/intervention.hpp"
#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"

namespace rope::detail {
namespace {

constexpr std::size_t kLongestName = 4096, kMostRecords = std::size_t{1} << 30;

bool same_word(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

}  // namespace

void refuse_record(const std::string& where, const std::string& expected, const std::string& found,
                   const std::string& hint) {
  throw UserError(where + ": expected " + expected + ", found " + found, hint);
}

void check_name(const std::string& where, const std::string& column, std::string_view text) {
  if (text.empty()) refuse_record(where, "a name in " + rope::quoted(column), "none");
  if (text.size() > kLongestName)
    refuse_record(where, "a name of at most 4096 bytes in " + rope::quoted(column), "a longer one");
  if (!is_utf8(text) || text.find('\0') != std::string_view::npos)
    refuse_record(where, "UTF-8 text without NUL in " + rope::quoted(column), rope::quoted(text));
}

bool solved(const std::string& where, const std::string& column, double score) {
  if (score >= 0 && score <= 1) return score == 1;
  refuse_record(where, "true, false or a score from 0 to 1 in " + rope::quoted(column), std::to_string(score),
                "an example counts as solved where its score is exactly 1");
}

bool solved(const std::string& where, const std::string& column, std::string_view text) {
  if (same_word(text, "true")) return true;
  if (same_word(text, "false")) return false;
  double score = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, score);
  if (parsed.ec == std::errc() && parsed.ptr == end && score >= 0 && score <= 1) return score == 1;
  refuse_record(where, "true, false or a score from 0 to 1 in " + rope::quoted(column),
                text.empty() ? "none" : rope::quoted(text),
                "an example counts as solved where its score is exactly 1");
}

std::uint8_t stage_of(const std::string& where, const std::string& column, std::string_view text) {
  if (text.empty()) return 0;
  if (text == "5") return 5;
  if (text == "10") return 10;
  refuse_record(where, "stage 5, 10 or nothing in " + rope::quoted(column), rope::quoted(text));
}

std::string candidate_id(std::string_view text) {
  double alpha = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, alpha);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(alpha >= 0 && alpha <= kLargestStrength))
    return std::string(text);
  return Intervention{Operation::kRescale, alpha + 0.0}.id();  // -0 becomes 0
}

void add_record(RecordTable& table, const std::string& where, std::string_view task, std::string_view example,
                std::string_view candidate, std::uint8_t stage, bool correct, std::int64_t line) {
  if (table.records.size() >= kMostRecords) refuse_record(where, "at most 2^30 records in all", "more");
  AccuracyRecord record;
  record.task = table.tasks.number(task);
  record.example = table.examples.number(example);
  record.candidate = table.candidates.number(candidate_id(candidate));
  record.file = static_cast<std::uint32_t>(table.files.size() - 1);
  record.line =
      static_cast<std::uint32_t>(std::min<std::int64_t>(line, std::numeric_limits<std::uint32_t>::max()));
  record.stage = stage;
  record.correct = correct;
  table.records.push_back(record);
}

}  // namespace rope::detail
