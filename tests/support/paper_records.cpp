#include "support/paper_records.hpp"

#include <cmath>
#include <numeric>

#include "support/csv_table.hpp"

namespace rope::test {
namespace {

std::vector<std::size_t> shuffled(std::size_t count, std::mt19937_64& generator) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, generator);
  return order;
}

/// Records of one run over `examples` examples, `correct` of them solved.
void add_run(const PaperRow& row, const std::string& candidate, int examples, int correct,
             std::mt19937_64& generator, std::vector<PaperRecord>& records) {
  const auto order = shuffled(static_cast<std::size_t>(row.matched), generator);
  for (int i = 0; i < examples; ++i) {
    const bool matched = i < row.matched;
    const std::size_t example = matched ? order[static_cast<std::size_t>(i)] : static_cast<std::size_t>(i);
    const bool solved = matched ? i < correct : generator() % 2 == 0;
    records.push_back({row.setting, "x" + std::to_string(example), candidate, row.stage, solved});
  }
}

}  // namespace

std::vector<PaperRow> paper_rows(const std::string& model) {
  const CsvTable table = read_table(ROPE_SOURCE_DIR "/tests/data/reference/paper_results.csv");
  std::vector<PaperRow> rows;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (table.text(r, "model") != model) continue;
    PaperRow row{table.text(r, "setting"), table.text(r, "candidate"), table.text(r, "direction")};
    row.stage = static_cast<int>(table.number(r, "stage"));
    row.matched = static_cast<int>(table.number(r, "n_matched"));
    row.planned = static_cast<int>(table.number(r, "n_planned"));
    const auto count = [&](const char* name) {
      return static_cast<int>(std::lround(table.number(r, name) * row.matched / 100));
    };
    row.baseline_correct = count("baseline_acc");
    row.correct = count("acc");
    row.change_points = table.number(r, "change");
    rows.push_back(row);
  }
  return rows;
}

std::vector<PaperRecord> paper_records(const std::vector<PaperRow>& rows, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<PaperRecord> records;
  std::map<std::pair<std::string, int>, bool> has_baseline;
  for (const PaperRow& row : rows) {
    if (!std::exchange(has_baseline[{row.setting, row.stage}], true))
      add_run(row, kBaseline, row.matched, row.baseline_correct, generator, records);
    add_run(row, row.candidate, row.planned, row.correct, generator, records);
  }
  shuffle(records, generator);
  return records;
}

RecordTable table_of(const std::vector<PaperRecord>& records) {
  RecordTable table;
  table.files = {"records"};
  for (const PaperRecord& record : records) {
    AccuracyRecord added;
    added.task = table.tasks.number(record.task);
    added.example = table.examples.number(record.example_id);
    added.candidate = table.candidates.number(record.candidate);
    added.stage = static_cast<std::uint8_t>(record.stage);
    added.correct = record.correct;
    added.line = static_cast<std::uint32_t>(table.records.size() + 1);
    table.records.push_back(added);
  }
  return table;
}

std::string csv_of(const std::vector<PaperRecord>& records) {
  std::string text = "task,stage,candidate,example_id,correct\n";
  for (const PaperRecord& r : records)
    text += r.task + "," + (r.stage == 0 ? "" : std::to_string(r.stage)) + "," + r.candidate + "," +
            r.example_id + "," + (r.correct ? "1" : "0") + "\n";
  return text;
}

OutcomePlan paper_plan(const std::vector<PaperRow>& rows) {
  OutcomePlan plan;
  for (const PaperRow& row : rows) {
    if (plan.empty() || plan.back().task != row.setting || plan.back().stage != row.stage)
      plan.push_back({row.setting,
                      row.stage,
                      row.direction == "semantic" ? Direction::kSemantic : Direction::kPositional,
                      {}});
    plan.back().candidates.push_back(row.candidate);
  }
  return plan;
}

}  // namespace rope::test
