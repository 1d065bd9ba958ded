#include "profiler/token_sample.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace rope {
namespace {

using Position = std::int64_t;

std::string sha256_hex(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 is not available");
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(std::size_t{2} * size);
  for (unsigned i = 0; i < size; ++i) {
    hex += kHex[digest[i] >> 4];
    hex += kHex[digest[i] & 15];
  }
  return hex;
}

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
  return sha256_hex(text);
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
