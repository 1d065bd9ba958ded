#pragma once

#include <istream>
#include <optional>
#include <string>
#include <unordered_map>

#include "profiler/token_sample.hpp"

namespace rope {

/// Reads eligible token positions, one JSON object per line (schemas/tokens.schema.json):
/// {"example_id": text, "task": text, "query": [positions], "key": [positions]}. Blank lines are skipped,
/// other members ignored. One line at a time; of what was read only the ids are kept, since an example may
/// come once.
class TokenLineReader {
 public:
  /// `name` stands for the stream in messages.
  TokenLineReader(std::istream& from, std::string name) : from_(from), name_(std::move(name)) {}

  /// The next example, or nothing at the end. Throws UserError "FILE:LINE: expected ..., found ...".
  std::optional<TokenCandidates> next();
  std::int64_t line() const { return line_; }  ///< number of the line read last, from 1

 private:
  bool read_line(std::string& text);

  std::istream& from_;
  std::string name_;
  std::int64_t line_ = 0;
  std::unordered_map<std::string, std::int64_t> seen_;  // "task/example_id" to its line
};

/// One line of output without its end (schemas/positions.schema.json):
/// {"example_id", "task", "query_position", "key_position"}.
std::string token_choice_line(const TokenCandidates& example, const TokenChoice& choice);

}  // namespace rope
