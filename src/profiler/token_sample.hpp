#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rope {

/// Positions of one example that may be chosen, and those that were.
struct TokenCandidates {
  std::string task, example_id;
  std::vector<std::int64_t> query, key;  ///< distinct token positions, >= 0, any order
};
struct TokenChoice {
  std::vector<std::int64_t> query;  ///< rising
  std::vector<std::int64_t> key;    ///< all before query[0]; neighbours form the default triplets
};

/// How many tokens, and what makes the choice repeatable (P F.1; commands.md, `sample`).
struct TokenSampleOptions {
  std::int64_t queries = 4, keys = 16;
  std::string protocol = "p1";
  std::uint64_t seed = 20260910;
};

/// Lower-case hex SHA-256 of `protocol NUL task/example_id NUL role NUL position NUL seed`.
std::string token_digest(const TokenSampleOptions& options, const std::string& task,
                         const std::string& example_id, std::string_view role, std::int64_t position);

/// The first `queries` query positions by digest (role "query", ties by position), written rising; of the
/// keys before the smallest of them the first `keys` by digest (role "key"), re-ordered by digest (role
/// "pair"). Fewer where there are fewer. The order of the candidates does not matter.
TokenChoice choose_tokens(const TokenCandidates& candidates, const TokenSampleOptions& options);

}  // namespace rope
