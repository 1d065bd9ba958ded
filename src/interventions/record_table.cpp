#include "interventions/record_table.hpp"

#include <algorithm>
#include <numeric>

namespace rope {

std::uint32_t TextPool::number(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  texts_.emplace_back(text);
  const auto number = static_cast<std::uint32_t>(texts_.size() - 1);
  numbers_.emplace(texts_.back(), number);
  return number;
}

std::vector<std::uint32_t> TextPool::ranks() const {
  std::vector<std::uint32_t> order(texts_.size()), ranks(texts_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return texts_[a] < texts_[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<std::uint32_t>(i);
  return ranks;
}

std::string RecordTable::place(const AccuracyRecord& record) const {
  return files[record.file] + ":" + std::to_string(record.line);
}

}  // namespace rope
