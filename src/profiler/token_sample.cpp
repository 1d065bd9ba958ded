#include "profiler/token_sample.hpp"

#include <algorithm>

#include "profiler/digest.hpp"

namespace rope {
namespace {

using Position = std::int64_t;

/// `positions` in the order of their digests, ties by position; at most `count` of them.
std::vector<Position> by_digest(const TokenSampleOptions& options, const TokenCandidates& example,
                                std::string_view role, const std::vector<Position>& positions,
                                std::size_t count) {
  std::vector<std::pair<std::string, Position>> order;
  order.reserve(positions.size());
  for (const Position position : positions)
    order.emplace_back(token_digest(options, example.task, example.example_id, role, position), position);
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end());
  std::vector<Position> chosen;
  chosen.reserve(count);
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(order[i].second);
  return chosen;
}

}  // namespace

std::string token_digest(const TokenSampleOptions& options, const std::string& task,
                         const std::string& example_id, std::string_view role, std::int64_t position) {
  std::string text = options.protocol;
  text += '\0';
  text += task + "/" + example_id;
  text += '\0';
  text += role;
  text += '\0';
  text += std::to_string(position);
  text += '\0';
  text += std::to_string(options.seed);
  return sha256_of_bytes(text);
}

TokenChoice choose_tokens(const TokenCandidates& candidates, const TokenSampleOptions& options) {
  TokenChoice choice;
  choice.query =
      by_digest(options, candidates, "query", candidates.query, static_cast<std::size_t>(options.queries));
  std::sort(choice.query.begin(), choice.query.end());
  if (choice.query.empty()) return choice;
  std::vector<Position> earlier;
  std::copy_if(candidates.key.begin(), candidates.key.end(), std::back_inserter(earlier),
               [&](Position key) { return key < choice.query.front(); });
  const auto kept = by_digest(options, candidates, "key", earlier, static_cast<std::size_t>(options.keys));
  choice.key = by_digest(options, candidates, "pair", kept, kept.size());
  return choice;
}

}  // namespace rope
