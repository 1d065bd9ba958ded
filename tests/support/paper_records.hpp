#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interventions/outcome.hpp"

namespace rope::test {

/// A printed row of tests/data/reference/paper_results.csv as counts.
struct PaperRow {
  std::string setting, candidate, direction;
  int stage = 5;
  int matched = 0, planned = 0, baseline_correct = 0, correct = 0;
  double change_points = 0;  ///< as printed
};
std::vector<PaperRow> paper_rows(const std::string& model);

/// One record of those counts.
struct PaperRecord {
  std::string task, example_id, candidate;
  int stage = 5;
  bool correct = false;
};

/// Records with the counts of the rows: each run's correct examples are the first of a shuffle of its own, so
/// gains and losses overlap. Examples beyond the matched ones have no baseline record. The order is shuffled.
std::vector<PaperRecord> paper_records(const std::vector<PaperRow>& rows, std::uint64_t seed);

RecordTable table_of(const std::vector<PaperRecord>& records);
/// As CSV text with the columns task, stage, candidate, example_id, correct.
std::string csv_of(const std::vector<PaperRecord>& records);

/// The (task, stage) entries of a plan with the paper's candidates and directions.
OutcomePlan paper_plan(const std::vector<PaperRow>& rows);

/// Uniform shuffle, the same on every library.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& generator) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[generator() % i]);
}

}  // namespace rope::test
