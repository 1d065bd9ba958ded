#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "support/run_cli.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("cli");

using namespace rope::test;

namespace {

const std::vector<std::string> kSmall{"--tasks",       "2",    "--examples", "2", "--layers",   "1",
                                      "--query-heads", "2",    "--kv-heads", "1", "--head-dim", "8",
                                      "--windows",     "64,80"};

std::vector<std::string> synth(const std::string& output, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"synth", "-o", output};
  arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("synth writes a file, and the same bytes to standard output") {
  const TempDir folder;
  const ProgramResult result = run_program(synth(folder / "a.h5"));
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
  const std::string bytes = read_file(folder / "a.h5");
  CHECK(bytes.substr(1, 3) == "HDF");
  CHECK(run_program(synth("-")).out == bytes);
  CHECK(run_binary(synth("-", {"--threads", "5"})).out == bytes);
}

TEST_CASE("synth replaces a file only with --force") {
  const TempDir folder;
  const std::string path = folder / "a.h5";
  REQUIRE(run_program(synth(path)).exit_code == 0);
  const std::string before = read_file(path);
  check_failure(run_program(synth(path, {"--seed", "7"})), 2, {"a.h5", "exists"});
  CHECK(read_file(path) == before);
  CHECK(run_program(synth(path, {"--seed", "7", "--force"})).exit_code == 0);
  CHECK(read_file(path) != before);
}

TEST_CASE("every choice of synth leads to another file") {
  const TempDir folder;
  REQUIRE(run_program(synth(folder / "a.h5")).exit_code == 0);
  const std::string plain = read_file(folder / "a.h5");
  const std::vector<std::vector<std::string>> variants{{"--spectrum", "flat"},
                                                       {"--spectrum", "high"},
                                                       {"--spectrum", "low"},
                                                       {"--dtype", "bfloat16"},
                                                       {"--dtype", "float32"},
                                                       {"--dtype", "float64"},
                                                       {"--layout", "interleaved"},
                                                       {"--query-rotation", "post"},
                                                       {"--key-rotation", "post"},
                                                       {"--coverage", "full"},
                                                       {"--compress", "gzip"},
                                                       {"--compress", "lzf"},
                                                       {"--rope-theta", "500000"},
                                                       {"--queries", "2"},
                                                       {"--keys", "9"},
                                                       {"--name", "other"},
                                                       {"--seed", "1"}};
  for (const auto& variant : variants) {
    CAPTURE(variant[0]);
    CAPTURE(variant[1]);
    const ProgramResult result = run_program(synth("-", variant));
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK(result.out != plain);
  }
}

TEST_CASE("synth takes sizes and frequencies from a config, once") {
  const TempDir folder;
  const std::string config = folder / "config.json";
  std::ofstream(config) << R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "hidden_size": 32, "rope_theta": 500000.0,
    "max_position_embeddings": 4096})";
  const std::string bytes = run_program({"synth", "-o", "-", "--config", config, "--tasks", "1"}).out;
  CHECK(bytes.find("\"rope_theta\": 500000.0") != std::string::npos);  // embedded as it is
  check_failure(run_program({"synth", "-o", "-", "--config", config, "--layers", "3"}), 2,
                {"--layers", "--config"});
  check_failure(run_program({"synth", "-o", "-", "--config", folder / "none"}), 3,
                {"none", "cannot be read"});
  std::ofstream(config) << "{";
  check_failure(run_program({"synth", "-o", "-", "--config", config}), 3, {"config.json"});
  std::ofstream(config) << "";
  check_failure(run_program({"synth", "-o", "-", "--config", config}), 3, {"config.json", "empty"});
}

TEST_CASE("the ranking of a synthetic cache is the one that it was made for") {
  const TempDir folder;
  const std::string cache = folder / "mix.h5", profile = folder / "mix.profile.h5";
  REQUIRE(
      run_program({"synth", "-o", cache, "--tasks", "5", "--head-dim", "32", "--windows", "600"}).exit_code ==
      0);
  REQUIRE(run_program({"profile", cache, "-o", profile}).exit_code == 0);
  const ProgramResult table = run_program({"export", profile, "--table", "ranking"});
  REQUIRE(table.exit_code == 0);
  std::istringstream lines(table.out);
  std::string line;
  std::getline(lines, line);
  CHECK(line.rfind("task,semantic_score,positional_score,r_s,r_p,w_s,", 0) == 0);
  std::map<std::string, std::string> w_s;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells(1);
    for (const char c : line) {
      if (c == ',')
        cells.emplace_back();
      else
        cells.back() += c;
    }
    REQUIRE(cells.size() >= 6);
    w_s[cells[0]] = cells[5];
  }
  CHECK(w_s ==
        std::map<std::string, std::string>{
            {"task_1", "0"}, {"task_2", "0.25"}, {"task_3", "0.5"}, {"task_4", "0.75"}, {"task_5", "1"}});
}

TEST_CASE("mistakes in synth's options are usage errors") {
  check_failure(run_program({"synth"}), 2, {"--output is required"});
  for (const std::string windows : {"0", "1", "x", "100,", ",100", "16777217", "1e3", "100 200"})
    check_failure(run_program({"synth", "-o", "-", "--windows", windows}), 2, {"--windows"});
  check_failure(run_program(synth("-", {"--head-dim", "9"})), 2, {"synth"});
  check_failure(run_program({"synth", "-o", "-", "--head-dim", "9"}), 2, {"--head-dim 9 is odd"});
  check_failure(run_program({"synth", "-o", "-", "--kv-heads", "3"}), 2, {"--query-heads 8", "--kv-heads 3"});
  check_failure(run_program({"synth", "-o", "-", "--spectrum", "pink"}), 2, {"--spectrum", "pink", "flat"});
  check_failure(run_program({"synth", "-o", "-", "--coverage", "full", "--keys", "4"}), 2, {"--keys"});
  check_failure(run_program({"synth", "-o", "-", "--windows", "8"}), 2, {"no room"});
  check_failure(run_program({"synth", "-o", "-", "--rope-theta", "nan"}), 2, {"--rope-theta"});
}

TEST_CASE("synth does not send binary to a terminal") {
  if (!terminals_available()) {
    MESSAGE("left out: no pseudo-terminals here");
    return;
  }
  BinaryOptions options;
  options.terminal = true;
  const ProgramResult result = run_binary(synth("-"), options);
  CHECK(result.exit_code == 2);
  CHECK(result.out.find("binary output does not go to a terminal") != std::string::npos);
}

TEST_CASE("Ctrl-C leaves nothing behind and ends by the signal") {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    const TempDir folder;
    BinaryProcess process({"synth", "-o", folder / "big.h5", "--examples", "200000"});
    // Wait for the partial output to appear, then interrupt.
    bool partial = false;
    while (process.running() && !partial) partial = !std::filesystem::is_empty(folder.path());
    process.send(signal_number);
    CHECK(process.wait() == 128 + signal_number);
    CHECK(partial);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

TEST_SUITE_END();
