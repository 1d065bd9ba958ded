#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "profiler/token_sample.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("cli");

using namespace rope::test;
using nlohmann::json;

namespace {

using Positions = std::vector<std::int64_t>;

Positions range(std::int64_t first, std::int64_t end) {
  Positions all(static_cast<std::size_t>(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

std::string input_line(const std::string& task, const std::string& id, const Positions& query,
                       const Positions& key) {
  const json line{{"example_id", id}, {"task", task}, {"query", query}, {"key", key}};
  check_schema("tokens", line);
  return line.dump() + "\n";
}

std::vector<json> output_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(json::parse(line));
    check_schema("positions", lines.back());
  }
  return lines;
}

/// Runs `sample` on a file of this text.
ProgramResult sample(const std::string& text, const std::vector<std::string>& options = {},
                     const std::string& output = "-") {
  const TempDir folder;
  std::ofstream(folder / "tokens.jsonl") << text;
  std::vector<std::string> arguments{"sample", folder / "tokens.jsonl", "-o", output};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(arguments);
}

}  // namespace

// Expected values of this file: Python's hashlib on the text that commands.md gives.

TEST_CASE("the digest is SHA-256 of protocol, task/example, role, position and seed") {
  rope::TokenSampleOptions options;
  CHECK(rope::token_digest(options, "niah", "7", "query", 123) ==
        "b1f27e07cc6939ac5f107a13675e3b360de75b4519cd98efe13e0d3746b09d10");
  options.seed = 0;
  CHECK(rope::token_digest(options, "größe", "a/b", "pair", 0) ==
        "7e3616ccdfa415e3402bee1df9a75c3dce20382425214f3fe02b5f21d2818f73");
}

TEST_CASE("sample chooses the tokens that the rule names") {
  const auto result = sample(input_line("niah", "7", range(900, 1000), range(0, 950)));
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const auto lines = output_lines(result.out);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["task"] == "niah");
  CHECK(lines[0]["example_id"] == "7");
  CHECK(lines[0]["query_position"] == json{947, 964, 980, 993});
  CHECK(lines[0]["key_position"] ==
        json{48, 293, 712, 70, 676, 716, 692, 558, 462, 436, 261, 189, 232, 506, 912, 214});
}

TEST_CASE("sample obeys its options and keeps keys before the first query") {
  const auto result = sample(input_line("niah", "8", {5, 6, 7}, range(0, 20)),
                             {"--queries", "2", "--keys", "3", "--protocol", "p2", "--seed", "1"});
  const auto lines = output_lines(result.out);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["query_position"] == json{6, 7});
  CHECK(lines[0]["key_position"] == json{2, 0, 1});
}

TEST_CASE("the order of positions and of members does not matter, other members and blank lines neither") {
  Positions query = range(900, 1000), key = range(0, 950);
  const std::string first = sample(input_line("t", "0", query, key)).out;
  std::reverse(query.begin(), query.end());
  std::reverse(key.begin(), key.end());
  const json line{{"key", key}, {"query", query}, {"task", "t"}, {"note", json{1, 2}}, {"example_id", "0"}};
  CHECK(sample("\n" + line.dump() + "\r\n  \n").out == first);
}

TEST_CASE("examples with too few tokens are written and named in a warning") {
  const auto result =
      sample(input_line("t", "a", range(50, 60), range(0, 40)) + input_line("t", "x", {0}, {0, 1, 2}));
  CHECK(result.exit_code == 0);
  const auto lines = output_lines(result.out);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1]["query_position"] == json{0});
  CHECK(lines[1]["key_position"] == json::array());
  CHECK(result.err ==
        "rope-profiler: warning: 1 of 2 examples have fewer tokens than asked for, first t/x on line 2\n");
}

TEST_CASE("sample reads standard input and writes a file that appears whole or not at all") {
  const TempDir folder;
  BinaryOptions options;
  options.input = input_line("niah", "7", range(900, 1000), range(0, 950));
  const std::string file = folder / "positions.jsonl";
  CHECK(run_binary({"sample", "-", "-o", file}, options).exit_code == 0);
  CHECK(read_file(file) == sample(options.input).out);
  check_failure(run_binary({"sample", "-", "-o", file}, options), 2, {"positions.jsonl", "exists"});
  CHECK(run_binary({"sample", "-", "-o", file, "--force"}, options).exit_code == 0);
  options.input += "nonsense\n";
  check_failure(run_binary({"sample", "-", "-o", file, "--force"}, options), 3, {"standard input:2"});
  CHECK(output_lines(read_file(file)).size() == 1);  // the old one is still there
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files += entry.exists();
  CHECK(files == 1);
}

TEST_CASE("mistakes in the input name file and line") {
  const std::string good = input_line("t", "a", range(50, 60), range(0, 40));
  const TempDir folder;
  const std::string output = folder / "out";
  const auto fails = [&](const std::string& line, const std::string& what) {
    check_failure(sample(good + line, {}, output), 3, {"tokens.jsonl:2: expected ", what});
    CHECK(!std::filesystem::exists(output));
  };
  fails(good, "an example that has not come before, found \"a\" of line 1");
  fails("{", "one JSON object, found a mistake at byte");
  fails("[]", "one JSON object, found an array");
  fails("7", "one JSON object, found 7");
  fails(R"({"task": "t", "query": [1], "key": [0]})", R"(a member "example_id", found none)");
  fails(R"({"example_id": 7, "task": "t", "query": [1], "key": [0]})", R"("example_id" to be a text)");
  fails(R"({"example_id": "7", "task": "", "query": [1], "key": [0]})", R"("task" to be a text)");
  fails(R"({"example_id": "7", "task": "a/b", "query": [1], "key": [0]})", "a task name without '/'");
  fails(R"({"example_id": "7\u0000", "task": "t", "query": [1], "key": [0]})", "without a NUL");
  fails(R"({"example_id": "7", "task": "t", "query": 1, "key": [0]})", R"("query" to be a list, found 1)");
  for (const std::string value : {"-1", "1.5", "16777216", "1e400", "null", "18446744073709551616"})
    fails(R"({"example_id": "7", "task": "t", "query": [)" + value + R"(], "key": [0]})", "");
  fails(R"({"example_id": "7", "task": "t", "query": [1], "key": [3, 3]})", "found 3 twice");
  fails("{\"example_id\": \"\xff\", \"task\": \"t\", \"query\": [1], \"key\": [0]}", "a mistake at byte");
  fails(std::string(1000000, '['), "a mistake at byte");
  fails(std::string(500000, '[') + std::string(500000, ']'), "found an array");
}

TEST_CASE("sample without input, output or examples says so") {
  check_failure(sample("\n"), 3, {"tokens.jsonl", "at least one example"});
  check_failure(run_program({"sample", "no-such-file", "-o", "-"}), 3, {"no-such-file", "cannot be opened"});
  check_failure(run_program({"sample", "/", "-o", "-"}), 3, {"/: cannot be read"});
  check_failure(run_program({"sample", "x"}), 2, {"sample", "--output is required"});
  check_failure(run_program({"sample", "-o", "-"}), 2, {"sample", "FILE is required"});
  check_failure(run_program({"sample", "x", "-o", "-", "--keys", "0"}), 2, {"--keys"});
  check_failure(run_program({"sample", "x", "-o", ""}), 2, {"--output", "empty"});
}

TEST_SUITE_END();
