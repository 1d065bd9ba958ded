#include "interventions/record_reader.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "profiler/error.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

/// "task|stage|candidate|example|correct" of every record.
std::vector<std::string> lines_of(const Records& records) {
  std::vector<std::string> lines;
  for (const AccuracyRecord& r : records.table.records)
    lines.push_back(records.table.tasks.text(r.task) + "|" + std::to_string(r.stage) + "|" +
                    records.table.candidates.text(r.candidate) + "|" +
                    records.table.examples.text(r.example) + "|" + (r.correct ? "1" : "0"));
  return lines;
}

class Files {
 public:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  Records read(const std::string& text, const RecordOptions& options = {}, const std::string& candidate = {},
               const std::string& name = "r.csv") {
    return read_records({{write(name, text), candidate}}, options);
  }
  /// Message of the refusal without the folder; empty where the text is read.
  std::string refusal(const std::string& text, const RecordOptions& options = {},
                      const std::string& candidate = {}, const std::string& name = "r.csv") {
    try {
      read(text, options, candidate, name);
    } catch (const UserError& error) {
      const std::string message = error.what();
      CHECK(message.find('\n') == std::string::npos);
      const std::string start = folder_ / "";
      CHECK(message.find(start) == 0);
      return message.substr(start.size());
    }
    return "";
  }

 private:
  TempDir folder_;
};

const std::string kHeader = "task,example_id,candidate,correct\n";

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("records: CSV") {
  Files files;
  const std::string text =
      "\xef\xbb\xbf"
      "extra,candidate,stage,example_id,correct,task\r\n"
      "x,baseline,5,\"a \"\"1\"\"\nb\",true,t\r\n"
      ",0.5,10,7,0,\"t,2\"\r\n"
      ",0.5,,7,1.0,t\r\n";
  const Records records = files.read(text);
  CHECK(lines_of(records) ==
        std::vector<std::string>{"t|5|baseline|a \"1\"\nb|1", "t,2|10|0.5|7|0", "t|0|0.5|7|1"});
  CHECK(records.table.records[1].line == 4);  // the id of line 2 goes over two lines
  CHECK(records.files[0].format == "csv");
  CHECK(records.files[0].records == 3);
  for (const auto& [score, correct] : std::vector<std::pair<std::string, int>>{{"1", 1},
                                                                               {"0", 0},
                                                                               {"1.000", 1},
                                                                               {"0.999999", 0},
                                                                               {"True", 1},
                                                                               {"FALSE", 0},
                                                                               {"0.5", 0},
                                                                               {"1e0", 1},
                                                                               {"-0", 0}})
    CHECK(lines_of(files.read(kHeader + "t,1,NR," + score + "\n"))[0].back() == '0' + correct);
  // `correct` before `score`; a named column before both.
  CHECK(lines_of(files.read("task,example_id,candidate,score,correct\nt,1,NR,0,1\n"))[0].back() == '1');
  CHECK(lines_of(files.read("task,example_id,candidate,score\nt,1,NR,1\n"))[0].back() == '1');
  RecordOptions named;
  named.task_column = "T";
  named.example_column = "id";
  named.candidate_column = "run";
  named.score_column = "acc";
  named.stage_column = "S";
  CHECK(lines_of(files.read("T,id,run,acc,correct,S\nt,1,NR,0,1,10\n", named))[0] == "t|10|NR|1|0");
}

TEST_CASE("records: what a file does not say comes from options and from CANDIDATE=FILE") {
  Files files;
  RecordOptions options;
  options.task = "q";
  options.stage = 10;
  const Records records = files.read("example_id,score\n1,1\n", options, "0.5");
  CHECK(lines_of(records)[0] == "q|10|0.5|1|1");
  CHECK(records.used.task);
  CHECK(records.used.stage);
  CHECK_FALSE(records.used.candidate);
  options.candidate = "NR";
  const Records full = files.read("task,example_id,candidate,score,stage\nt,1,2,1,5\n", options);
  CHECK(lines_of(full)[0] == "t|5|2|1|1");
  CHECK_FALSE((full.used.task || full.used.stage || full.used.candidate));
  // An empty stage is one that the record does not say.
  const Records mixed = files.read("task,example_id,candidate,score,stage\nt,1,2,1,5\nt,1,2,1,\n", options);
  CHECK(lines_of(mixed) == std::vector<std::string>{"t|5|2|1|1", "t|10|2|1|1"});
  CHECK(mixed.used.stage);
  CHECK(files.refusal("task,example_id,score\nt,1,1\n").find("r.csv:1: expected a candidate in") == 0);
  CHECK(files.refusal(kHeader + "t,1,NR,1\n", {}, "NR").find("r.csv:1: expected records without") == 0);

  CHECK(parse_record_file("0.5=a=b.csv").path == "a=b.csv");
  CHECK(parse_record_file("0.5=a=b.csv").candidate == "0.5");
  CHECK(parse_record_file("a.csv").candidate.empty());
  const std::string odd = files.write("x=y.csv", kHeader + "t,1,NR,1\n");
  CHECK(parse_record_file(odd).path == odd);
  CHECK_THROWS_AS(parse_record_file("=a.csv"), UserError);
  CHECK_THROWS_AS(parse_record_file("NR="), UserError);
}

TEST_CASE("records: JSON lines") {
  Files files;
  const std::string text =
      "{\"task\": \"t\", \"example_id\": 7, \"candidate\": \"NR\", \"correct\": true, \"stage\": 10}\n\n"
      "{\"extra\": [{\"task\": 1}], \"task\": \"t\", \"example_id\": \"7\", \"candidate\": 0, \"score\": "
      "1.0, "
      "\"stage\": null}\r\n"
      "{\"task\": \"t\", \"example_id\": -3, \"candidate\": \"\\u0041\\n\", \"correct\": null, \"score\": "
      "0.25}";
  const Records records = files.read(text);
  CHECK(lines_of(records) == std::vector<std::string>{"t|10|NR|7|1", "t|0|0|7|1", "t|0|A\n|-3|0"});
  CHECK(records.table.records[1].line == 3);
  CHECK(records.files[0].format == "jsonl");
  // Lines may be of different kinds: what one does not say comes from the option.
  RecordOptions options;
  options.task = "other";
  CHECK(lines_of(files.read("{\"example_id\": 1, \"candidate\": \"NR\", \"correct\": 1}", options))[0] ==
        "other|0|NR|1|1");
}

TEST_CASE("records: the schema of a line takes what the reader takes") {
  Files files;
  const auto line = [](const std::string& task, const std::string& id, const std::string& score,
                       const std::string& stage) {
    return "{\"task\": " + task + ", \"example_id\": " + id + ", \"candidate\": \"NR\", \"score\": " + score +
           ", \"stage\": " + stage + "}";
  };
  const auto agree = [&](const std::string& text, bool good) {
    CAPTURE(text);
    CHECK(files.refusal(text).empty() == good);
    CHECK(schema_violations("record", nlohmann::json::parse(text)).empty() == good);
  };
  for (const char* score : {"1", "0.5", "true", "false", "\"1\"", "\"True\""})
    agree(line("\"t\"", "7", score, "5"), true);
  for (const char* stage : {"5", "10", "\"10\"", "\"\"", "null"})
    agree(line("\"t\"", "\"a\"", "1", stage), true);
  for (const char* score : {"1.5", "-1", "[]", "{}", "\"yes\""}) agree(line("\"t\"", "7", score, "5"), false);
  for (const char* name : {"\"\"", "1.5", "true", "[]"}) {
    agree(line(name, "7", "1", "5"), false);
    agree(line("\"t\"", name, "1", "5"), false);
  }
  for (const char* stage : {"7", "true", "[5]"}) agree(line("\"t\"", "7", "1", stage), false);
  agree("{\"task\": \"t\", \"candidate\": \"NR\", \"score\": 1}", false);
  agree("{\"task\": \"t\", \"candidate\": \"NR\", \"example_id\": 1}", false);
}

TEST_CASE("records: a strength is the same candidate however it is written") {
  Files files;
  const auto candidate = [&](const std::string& text) {
    const auto& table = files.read("task,example_id,candidate,correct\nt,1," + text + ",1\n").table;
    return table.candidates.text(table.records[0].candidate);
  };
  for (const char* text : {"0.5", "0.50", ".5", "5e-1"}) CHECK(candidate(text) == "0.5");
  for (const char* text : {"2", "2.0", "2.000", "02"}) CHECK(candidate(text) == "2");
  CHECK(candidate("-0") == "0");
  for (const char* text : {"NR", "baseline", "-1", "1e9", "2x", "nan", "inf", "1e999"})
    CHECK(candidate(text) == text);
  const auto json = [&](const std::string& value) {
    const auto& table =
        files.read("{\"task\": \"t\", \"example_id\": 1, \"correct\": 1, \"candidate\": " + value + "}")
            .table;
    return table.candidates.text(table.records[0].candidate);
  };
  CHECK(json("0.5") == "0.5");
  CHECK(json("2.0") == "2");
  CHECK(json("2") == "2");
}

TEST_CASE("records: samples of lm-evaluation-harness") {
  Files files;
  const std::string name = "samples_niah_single_1_2025-03-01T10-20-30.123456.jsonl";
  const auto sample = [](int id, const std::string& rest) {
    return "{\"doc_id\": " + std::to_string(id) +
           ", \"doc\": {\"doc_id\": 9, \"acc\": 0}, \"arguments\": [[\"x\"]], " + rest + "}\n";
  };
  const Records records =
      files.read(sample(0, "\"acc\": 1.0") + sample(1, "\"acc\": 0.0"), {}, "baseline", name);
  CHECK(lines_of(records) ==
        std::vector<std::string>{"niah_single_1|0|baseline|0|1", "niah_single_1|0|baseline|1|0"});
  CHECK(records.files[0].format == "lm-eval");
  CHECK(records.files[0].metric == "acc");
  RecordOptions options;
  options.task = "t";
  options.metric = "em";
  CHECK(lines_of(files.read(sample(3, "\"acc\": 1, \"em\": 0"), options, "NR", "x.jsonl"))[0] ==
        "t|0|NR|3|0");
  options.metric = "";
  CHECK(files.read(sample(3, "\"exact_match\": 1"), options, "NR").files[0].metric == "exact_match");
  CHECK(files.read(sample(3, "\"m\": 1, \"metrics\": [\"m\"]"), options, "NR").files[0].metric == "m");
  CHECK(
      files.refusal(sample(3, "\"m\": 1, \"metrics\": [\"m\", \"n\"]"), options, "NR").find("\"m\", \"n\"") !=
      std::string::npos);
  CHECK(files.refusal(sample(3, "\"acc\": [1, 2]"), options, "NR").find("an array or object") !=
        std::string::npos);
  CHECK(files.refusal(sample(0, "\"acc\": 1") + sample(1, "\"em\": 1"), options, "NR").find("r.csv:2:") == 0);
  // Without a task, without a candidate.
  CHECK(files.refusal(sample(0, "\"acc\": 1"), {}, "NR", "x.jsonl").find("samples_TASK_DATE") !=
        std::string::npos);
  CHECK(files.refusal(sample(0, "\"acc\": 1"), {}, "", name).find("a candidate") != std::string::npos);
  // Several filters.
  const std::string two = sample(0, "\"exact_match\": 0, \"filter\": \"strict-match\"") +
                          sample(0, "\"exact_match\": 1, \"filter\": \"flexible-extract\"");
  CHECK(files.refusal(two, options, "NR").find("r.csv:2: expected samples of one filter") == 0);
  options.filter = "flexible-extract";
  const Records filtered = files.read(two, options, "NR");
  CHECK(lines_of(filtered) == std::vector<std::string>{"t|0|NR|0|1"});
  CHECK(filtered.used.filter);
  options.filter = "none";
  CHECK(files.refusal(two, options, "NR").find("at least one record") != std::string::npos);

  CHECK(task_of_sample_file("a/samples_x_y.jsonl") == "x_y");
  CHECK(task_of_sample_file("samples_x_2025-03-01T10-20-30.jsonl") == "x");
  CHECK(task_of_sample_file("samples_x_2025-03-01.jsonl") == "x_2025-03-01");
  CHECK(task_of_sample_file("results_x.jsonl").empty());
  CHECK(task_of_sample_file("samples_.jsonl").empty());
}

TEST_CASE("records: hostile files are refused, each with its line") {
  Files files;
  const auto csv = [&](const std::string& row) { return files.refusal(kHeader + row); };
  CHECK(csv("t,1,NR\n").find("r.csv:2: expected 4 fields") == 0);
  CHECK(csv("t,1,NR,1\nt,2,NR,1,1\n").find("r.csv:3:") == 0);
  for (const char* score : {"nan", "inf", "-1", "2", "100", "1e999", "", "yes", "0x1", "1 ", "\"a\nb\""})
    CHECK(csv(std::string("t,1,NR,") + score + "\n").find("r.csv:2: expected true, false or a score") == 0);
  CHECK(csv(",1,NR,1\n").find("r.csv:2: expected a name in \"task\", found none") == 0);
  CHECK(csv("t,,NR,1\n").find("\"example_id\"") != std::string::npos);
  CHECK(csv("t,1,,1\n").find("\"candidate\"") != std::string::npos);
  CHECK(csv(std::string("t,a\0b,NR,1\n", 11)).find("without NUL") != std::string::npos);
  CHECK(csv("t,\xff\xfe,NR,1\n").find("UTF-8") != std::string::npos);
  CHECK(csv("t," + std::string(5000, 'a') + ",NR,1\n").find("4096") != std::string::npos);
  CHECK(csv("t,\"1,NR,1\n").find("r.csv:2: expected the end of a quoted field") == 0);
  CHECK(csv("").find("at least one record") != std::string::npos);
  CHECK(files.refusal("").find("r.csv: expected accuracy records, found an empty file") == 0);
  CHECK(files.refusal(" \n\n").find("empty") != std::string::npos);
  CHECK(files.refusal("task,example_id,candidate,stage,score\nt,1,NR,7,1\n").find("stage 5, 10 or nothing") !=
        std::string::npos);
  CHECK(files.refusal("task,task,example_id,candidate,score\nt,t,1,NR,1\n").find("found two") !=
        std::string::npos);
  CHECK(files.refusal("task;example_id;candidate;correct\n").find("expected a column") != std::string::npos);
  CHECK(files.refusal("task,id,candidate,correct\nt,1,NR,1\n").find("\"task\", \"id\"") != std::string::npos);

  const std::string good = "{\"task\": \"t\", \"example_id\": 1, \"candidate\": \"NR\", \"correct\": 1}\n";
  const auto json = [&](const std::string& line) { return files.refusal(good + line); };
  CHECK(json("{\"task\": \"t\"").find("r.csv:2: expected one JSON object, found a mistake at byte") == 0);
  CHECK(json("7\n").find("r.csv:2:") == 0);
  CHECK(json("[]\n").find("r.csv:2:") == 0);
  CHECK(json("{} {}\n").find("r.csv:2:") == 0);
  CHECK(json("{\"task\": \"t\", \"task\": \"t\"}").find("the member \"task\" twice") != std::string::npos);
  const auto field = [&](const std::string& task, const std::string& id, const std::string& correct) {
    return json("{\"task\": " + task + ", \"example_id\": " + id +
                ", \"candidate\": \"NR\", \"correct\": " + correct + "}");
  };
  CHECK(field("\"t\"", "2", "1").empty());
  for (const char* score : {"NaN", "Infinity", "1e999", "-1", "2", "[1]", "{}", "\"x\"", "null"})
    CHECK(field("\"t\"", "2", score).find("r.csv:2:") == 0);
  for (const char* name : {"1.5", "true", "null", "[]", "\"\"", "\"a\\u0000b\"", "\"\\ud800\"", "\"\xff\""}) {
    CAPTURE(name);
    CHECK(field(name, "2", "1").find("r.csv:2:") == 0);
    CHECK(field("\"t\"", name, "1").find("r.csv:2:") == 0);
  }
  CHECK(field("\"t\"", "123456789012345678901234567890", "1").find("r.csv:2:") == 0);
  CHECK(files.refusal("[" + good + "]").find("a JSON array") != std::string::npos);
  // Deep nesting and long lists where nobody looks cost nothing.
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  CHECK(
      json("{\"x\": " + deep + ", \"task\": \"t\", \"example_id\": 2, \"candidate\": \"NR\", \"correct\": 0}")
          .empty());
  CHECK(json("{\"x\": " + std::string(200'000, '[')).find("r.csv:2:") == 0);
  CHECK_THROWS_AS(read_records({{"/nonexistent/r.csv", ""}}, {}), UserError);
  CHECK_THROWS_WITH_AS(read_records({{"/", ""}}, {}), "/: expected a regular file, found a folder",
                       UserError);
}

TEST_SUITE_END();
