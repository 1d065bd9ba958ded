#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rope {

/// The candidate that is no candidate: the unchanged model.
inline constexpr const char* kBaseline = "baseline";

/// Texts, each kept once and numbered in the order of its first use.
class TextPool {
 public:
  std::uint32_t number(std::string_view text);
  const std::string& text(std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }
  /// [size] place of each text in byte order, from 0.
  std::vector<std::uint32_t> ranks() const;

 private:
  std::deque<std::string> texts_;  // never moves its elements
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// One example of one run, solved or not. Texts by their number.
struct AccuracyRecord {
  std::uint32_t task = 0, example = 0, candidate = 0;
  std::uint32_t file = 0;  ///< index into RecordTable::files
  std::uint32_t line = 0;  ///< from 1
  std::uint8_t stage = 0;  ///< 5, 10, or 0: the record does not say
  bool correct = false;
};

/// Records of any number of files, in the order they were read.
struct RecordTable {
  TextPool tasks, examples, candidates;
  std::vector<AccuracyRecord> records;
  std::vector<std::string> files;

  std::string place(const AccuracyRecord& record) const;  ///< "FILE:LINE"
};

}  // namespace rope
