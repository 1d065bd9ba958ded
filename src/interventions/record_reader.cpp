#include "interventions/record_reader.hpp"

#include <filesystem>
#include <fstream>

#include "interventions/json_records.hpp"
#include "profiler/clean_text.hpp"
#include "profiler/csv_reader.hpp"
#include "profiler/error.hpp"
#include "profiler/regular_file.hpp"

namespace rope {
namespace {

using namespace detail;

/// First byte of the text after blanks and a byte order mark; -1 for none.
int first_byte(const std::string& path) {
  require_regular_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError(path + ": cannot open", "check the file's name");
  int c = in.get();
  if (c == 0xef) c = in.get() == 0xbb && in.get() == 0xbf ? in.get() : 0xef;
  while (c == ' ' || c == '\t' || c == '\r' || c == '\n') c = in.get();
  if (in.bad()) throw UserError(path + ": cannot be read", "is it a file?");
  return c;
}

void read_csv(const RecordFile& file, const RecordOptions& options, Records& records) {
  CsvTableReader rows(file.path);
  const std::string hint =
      "columns are named with --task-column, --example-column, --candidate-column, "
      "--score-column, --stage-column";
  const auto stage = rows.find(options.stage_column);
  auto task = rows.find(options.task_column), candidate = rows.find(options.candidate_column);
  const std::size_t example = rows.require(options.example_column, hint);
  std::string score_name = options.score_column.empty() ? "correct" : options.score_column;
  if (options.score_column.empty() && !rows.find(score_name)) score_name = "score";
  const std::size_t score = rows.require(score_name, hint);
  if (!task && options.task.empty())
    rows.require(options.task_column,
                 "name the task of such files with --task, or their column with --task-column");
  require_one_candidate(file, options, candidate.has_value(), file.path + ":1");
  const StandIns stand_ins =
      stand_ins_of(file, options, task.has_value(), candidate.has_value(), stage.has_value(), records.used);
  while (rows.next()) {
    const std::string where = rows.where();
    const std::string& task_name = task ? rows.field(*task) : stand_ins.task;
    const std::string& candidate_name = candidate ? rows.field(*candidate) : stand_ins.candidate;
    check_name(where, options.task_column, task_name);
    check_name(where, options.candidate_column, candidate_name);
    check_name(where, options.example_column, rows.field(example));
    std::uint8_t own_stage =
        stage ? stage_of(where, options.stage_column, rows.field(*stage)) : std::uint8_t{0};
    if (own_stage == 0 && options.stage != 0) {
      own_stage = static_cast<std::uint8_t>(options.stage);
      records.used.stage = true;
    }
    add_record(records.table, where, task_name, rows.field(example), candidate_name, own_stage,
               solved(where, score_name, rows.field(score)), rows.line());
  }
}

}  // namespace

RecordFile parse_record_file(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || std::filesystem::exists(argument, ignored)) return {argument, ""};
  RecordFile file{argument.substr(equals + 1), argument.substr(0, equals)};
  if (file.path.empty() || file.candidate.empty())
    throw usage_error(rope::quoted(argument) + ": expected FILE or CANDIDATE=FILE",
                      "e.g. baseline=samples_niah.jsonl");
  return file;
}

Records read_records(const std::vector<RecordFile>& files, const RecordOptions& options) {
  Records records;
  for (const RecordFile& file : files) {
    const std::size_t before = records.table.records.size();
    records.table.files.push_back(file.path);
    records.files.emplace_back();
    const int first = first_byte(file.path);
    if (first < 0) throw UserError(file.path + ": expected accuracy records, found an empty file");
    if (first == '[')
      throw UserError(file.path + ": expected CSV or one JSON object on every line, found a JSON array",
                      "jq -c '.[]' turns an array into lines");
    if (first == '{') {
      read_json_lines(file, options, records);
    } else {
      records.files.back().format = "csv";
      read_csv(file, options, records);
    }
    records.files.back().records = static_cast<std::int64_t>(records.table.records.size() - before);
    if (records.files.back().records == 0)
      throw UserError(file.path + ": expected at least one record, found none",
                      options.filter.empty() ? "" : "does --filter name one of the file's filters?");
  }
  return records;
}

}  // namespace rope
