#include "cli/suggest.hpp"

#include <algorithm>

#include "profiler/edit_distance.hpp"

namespace rope::cli {
namespace {

constexpr std::size_t kLongestWord = 64;  // a longer one is no slip of the finger

}  // namespace

std::vector<std::string> nearest(const std::string& word, const std::vector<std::string>& known) {
  if (word.empty() || word.size() > kLongestWord) return {};
  std::vector<std::pair<std::size_t, std::string>> near;
  const std::size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  const std::size_t most = std::max<std::size_t>(1, letters / 3);
  for (const std::string& candidate : known) {
    const bool begins = letters >= 2 && candidate.rfind(word, 0) == 0;
    const std::size_t distance = begins ? 0 : edit_distance(word, candidate);
    if (distance <= most) near.emplace_back(distance, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (near.size() > 3) near.resize(3);
  std::vector<std::string> words;
  words.reserve(near.size());
  for (auto& [distance, candidate] : near) words.push_back(std::move(candidate));
  return words;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known,
                         const std::string& otherwise) {
  const std::vector<std::string> words = nearest(word, known);
  if (words.empty()) return otherwise;
  std::string text = "did you mean ";
  for (std::size_t i = 0; i < words.size(); ++i) text += (i ? " or " : "") + words[i];
  return text + "?";
}

}  // namespace rope::cli
