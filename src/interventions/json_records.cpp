#include "interventions/json_records.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "interventions/flat_object.hpp"
#include "interventions/intervention.hpp"
#include "profiler/clean_text.hpp"
#include "profiler/error.hpp"

namespace rope {

std::string task_of_sample_file(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  constexpr std::string_view kStart = "samples_", kEnd = ".jsonl";
  if (!name.starts_with(kStart) || !name.ends_with(kEnd) || name.size() <= kStart.size() + kEnd.size())
    return "";
  name = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
  const std::size_t last = name.rfind('_');
  if (last == std::string::npos || last == 0) return name;
  const std::string date = name.substr(last + 1);  // 2024-05-01T12-00-00.123456
  constexpr std::string_view kForm = "0000-00-00T00-00-00";
  if (date.size() < kForm.size()) return name;
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == '0' ? date[i] < '0' || date[i] > '9' : date[i] != kForm[i]) return name;
  return name.substr(0, last);
}

}  // namespace rope

namespace rope::detail {
namespace {

using Kind = FlatObject::Kind;
constexpr std::size_t kLongestLine = std::size_t{1} << 28;

/// Lines of a file with their numbers; blank ones are passed over.
class LineReader {
 public:
  explicit LineReader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) throw UserError(path + ": cannot open", "check the file's name");
  }
  bool next(std::string& text) {
    try {
      return read(text);
    } catch (const std::ios_base::failure&) {
      throw UserError(path_ + ": cannot be read", "is it a file?");
    }
  }
  std::int64_t line() const { return line_; }
  std::string where() const { return path_ + ":" + std::to_string(line_); }

 private:
  bool read(std::string& text) {
    std::streambuf& buffer = *file_.rdbuf();
    for (;;) {
      text.clear();
      int c = buffer.sbumpc();
      if (c == std::char_traits<char>::eof()) return false;
      ++line_;
      for (; c != '\n' && c != std::char_traits<char>::eof(); c = buffer.sbumpc()) {
        text += static_cast<char>(c);
        if (text.size() > kLongestLine) refuse_record(where(), "a line of at most 256 MiB", "a longer one");
      }
      if (line_ == 1 && text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
      if (text.find_first_not_of(" \t\r") != std::string::npos) return true;
    }
  }

  const std::string& path_;
  std::ifstream file_;
  std::int64_t line_ = 0;
};

std::string shown(const FlatObject::Member& member) {
  switch (member.kind) {
    case Kind::kAbsent:
      return "none";
    case Kind::kNull:
      return "null";
    case Kind::kText:
      return rope::quoted(member.text);
    case Kind::kInteger:
      return member.text;
    case Kind::kReal:
    case Kind::kBoolean:
      return std::to_string(member.number);
    default:
      return "an array or object";
  }
}

bool given(const FlatObject::Member& member) {
  return member.kind != Kind::kAbsent && member.kind != Kind::kNull;
}

/// A text, or the digits of an integer, which many programs use as ids.
const std::string& name_of(const std::string& where, const FlatObject::Member& member) {
  if (member.kind != Kind::kText && member.kind != Kind::kInteger)
    refuse_record(where, "a text or whole number in " + rope::quoted(member.name), shown(member));
  check_name(where, member.name, member.text);
  return member.text;
}

/// A name, or a strength as a number.
std::string candidate_of(const std::string& where, const FlatObject::Member& member) {
  return member.kind == Kind::kReal ? Intervention{Operation::kRescale, member.number}.id()
                                    : name_of(where, member);
}

bool member_solved(const std::string& where, const FlatObject::Member& member) {
  if (member.kind == Kind::kText) return solved(where, member.name, member.text);
  if (member.kind != Kind::kBoolean && member.kind != Kind::kInteger && member.kind != Kind::kReal)
    refuse_record(where, "true, false or a score from 0 to 1 in " + rope::quoted(member.name), shown(member));
  return solved(where, member.name, member.number);
}

std::uint8_t member_stage(const std::string& where, const FlatObject::Member& member) {
  if (!given(member)) return 0;
  if (member.kind != Kind::kText && member.kind != Kind::kInteger)
    refuse_record(where, "stage 5, 10 or nothing in " + rope::quoted(member.name), shown(member));
  return stage_of(where, member.name, member.text);
}

/// Records of our own columns. Each line may leave out task, candidate and stage where an option says them.
void read_records_of(LineReader& lines, std::string text, const RecordFile& file,
                     const RecordOptions& options, Records& records) {
  const bool either = options.score_column.empty();
  FlatObject object({options.task_column, options.example_column, options.candidate_column,
                     options.stage_column, either ? "correct" : options.score_column,
                     either ? "score" : options.score_column});
  do {
    const std::string where = lines.where();
    object.parse(text, where);
    const FlatObject::Member &task = object[0], &candidate = object[2], &stage = object[3];
    if (!given(task) && options.task.empty())
      refuse_record(where, "a member " + rope::quoted(task.name), shown(task),
                    "name the task of such files with --task, or the member with --task-column");
    require_one_candidate(file, options, given(candidate), where);
    const StandIns stand_ins =
        stand_ins_of(file, options, given(task), given(candidate), given(stage), records.used);
    const FlatObject::Member& score = either && !given(object[4]) ? object[5] : object[either ? 4 : 5];
    add_record(records.table, where, given(task) ? name_of(where, task) : stand_ins.task,
               name_of(where, object[1]),
               given(candidate) ? candidate_of(where, candidate) : stand_ins.candidate,
               given(stage) ? member_stage(where, stage) : stand_ins.stage, member_solved(where, score),
               lines.line());
  } while (lines.next(text));
}

/// The metric of a file of samples: the option, else acc, else exact_match, else the only one listed.
std::string metric_of(const std::string& text, const std::string& where, const RecordOptions& options,
                      UsedOptions& used) {
  if (!options.metric.empty()) {
    used.metric = true;
    return options.metric;
  }
  FlatObject object({"acc", "exact_match", "metrics"});
  object.parse(text, where);
  for (const std::size_t known : {0, 1})
    if (given(object[known])) return object[known].name;
  if (object[2].texts.size() == 1) return object[2].texts[0];
  std::string list;
  for (const std::string& name : object[2].texts) list += (list.empty() ? "" : ", ") + rope::quoted(name);
  refuse_record(where, "a metric acc or exact_match", list.empty() ? "none" : list, "name one with --metric");
}

/// Samples of lm-evaluation-harness: one object per document and filter, the metric under its own name.
void read_samples(LineReader& lines, std::string text, const RecordFile& file, const RecordOptions& options,
                  Records& records) {
  const std::string first = lines.where();
  const std::string task = options.task.empty() ? task_of_sample_file(file.path) : options.task;
  if (task.empty())
    refuse_record(first, "a file samples_TASK_DATE.jsonl or --task", "another name and no --task");
  check_name(first, "--task", task);
  require_one_candidate(file, options, false, first);
  StandIns stand_ins = stand_ins_of(file, options, false, false, false, records.used);
  const std::string metric = metric_of(text, first, options, records.used);
  records.files.back().metric = metric;
  FlatObject object({"doc_id", "filter", metric});
  std::optional<std::string> filter;
  if (!options.filter.empty()) filter = options.filter;
  do {
    const std::string where = lines.where();
    object.parse(text, where);
    if (given(object[1])) {
      const std::string& own = name_of(where, object[1]);
      if (!options.filter.empty()) {
        records.used.filter = true;
        if (own != options.filter) continue;
      }
      if (!filter) filter = own;
      if (own != *filter)
        refuse_record(where, "samples of one filter, " + rope::quoted(*filter), rope::quoted(own),
                      "name one with --filter");
    }
    if (!given(object[2]))
      refuse_record(where, "the metric " + rope::quoted(metric), shown(object[2]), "name one with --metric");
    add_record(records.table, where, task, name_of(where, object[0]), stand_ins.candidate, stand_ins.stage,
               member_solved(where, object[2]), lines.line());
  } while (lines.next(text));
}

}  // namespace

StandIns stand_ins_of(const RecordFile& file, const RecordOptions& options, bool has_task, bool has_candidate,
                      bool has_stage, UsedOptions& used) {
  StandIns stand_ins;
  if (!has_task && !options.task.empty()) {
    stand_ins.task = options.task;
    used.task = true;
  }
  if (!has_candidate && !file.candidate.empty()) {
    stand_ins.candidate = file.candidate;
  } else if (!has_candidate && !options.candidate.empty()) {
    stand_ins.candidate = options.candidate;
    used.candidate = true;
  }
  if (!has_stage && options.stage != 0) {
    stand_ins.stage = static_cast<std::uint8_t>(options.stage);
    used.stage = true;
  }
  return stand_ins;
}

void require_one_candidate(const RecordFile& file, const RecordOptions& options, bool has_candidate,
                           const std::string& where) {
  if (has_candidate && !file.candidate.empty())
    refuse_record(where,
                  "records without " + rope::quoted(options.candidate_column) +
                      ", for the file was given as " + rope::quoted(file.candidate + "=FILE"),
                  "records that name their candidate", "give the file by its name alone");
  if (!has_candidate && file.candidate.empty() && options.candidate.empty())
    refuse_record(where, "a candidate in " + rope::quoted(options.candidate_column), "none",
                  "give such a file as CANDIDATE=FILE, e.g. baseline=FILE or 0.5=FILE, or use --candidate");
}

void read_json_lines(const RecordFile& file, const RecordOptions& options, Records& records) {
  LineReader lines(file.path);
  std::string text;
  lines.next(text);
  FlatObject object({options.example_column, "doc_id"});
  object.parse(text, lines.where());
  const bool samples = options.example_column != "doc_id" && !given(object[0]) && given(object[1]);
  records.files.back().format = samples ? "lm-eval" : "jsonl";
  if (samples)
    read_samples(lines, std::move(text), file, options, records);
  else
    read_records_of(lines, std::move(text), file, options, records);
}

}  // namespace rope::detail
