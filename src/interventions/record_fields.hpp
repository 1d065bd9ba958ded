#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "interventions/record_table.hpp"

namespace rope {

/// How records name their parts, and what stands in for what a file does not say.
struct RecordOptions {
  std::string task_column = "task", example_column = "example_id", candidate_column = "candidate";
  std::string score_column;  ///< empty: `correct` where there is one, else `score`
  std::string stage_column = "stage";
  std::string task, candidate;  ///< empty: files have to say
  int stage = 0;                ///< 5, 10; 0: not given
  std::string metric, filter;   ///< of lm-evaluation-harness samples; empty: found out, or the only one
};

/// Which of the stand-ins were needed.
struct UsedOptions {
  bool task = false, candidate = false, stage = false, metric = false, filter = false;
};

namespace detail {

/// "WHERE: expected X, found Y".
[[noreturn]] void refuse_record(const std::string& where, const std::string& expected,
                                const std::string& found, const std::string& hint = {});

/// A text as names must be: UTF-8 without NUL, 1 to 4096 bytes. `column` is named in the error.
void check_name(const std::string& where, const std::string& column, std::string_view text);

/// Whether a score counts as solved: 1 or true; a number from 0 to 1 that is not 1, or false, does not.
/// Anything else is refused.
bool solved(const std::string& where, const std::string& column, std::string_view text);
bool solved(const std::string& where, const std::string& column, double score);

/// 5, 10, or 0 for an empty text.
std::uint8_t stage_of(const std::string& where, const std::string& column, std::string_view text);

/// Id of a strength from 0 to 1e4, however it is written: "0.50" and "2.0" are the candidates 0.5 and 2. Any
/// other text stays as it is.
std::string candidate_id(std::string_view text);

/// Appends a record, its candidate by candidate_id(); refuses what would be too many.
void add_record(RecordTable& table, const std::string& where, std::string_view task, std::string_view example,
                std::string_view candidate, std::uint8_t stage, bool correct, std::int64_t line);

}  // namespace detail
}  // namespace rope
