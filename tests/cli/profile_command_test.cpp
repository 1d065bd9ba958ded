// The main job end to end: caches in, profile and table out.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "profiler/profile_file.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/csv_table.hpp"
#include "support/profile_content.hpp"
#include "support/run_cli.hpp"
#include "support/shared_folder.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const std::string kShippedCache = ROPE_SOURCE_DIR "/examples/data/smollm2.h5";

// Whole caches take minutes under the address sanitizer; one task of each walks through the same code.
#if defined(__SANITIZE_ADDRESS__)
const std::vector<std::string> kTasks = {"--tasks", "list_index"};
#else
const std::vector<std::string> kTasks = {};
#endif

CsvTable export_table(const std::string& profile, const std::string& table) {
  const ProgramResult result = run_program({"export", profile, "--table", table});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return parse_table(result.out);
}

std::string profile_of(const TempDir& folder, const std::string& name, std::vector<std::string> arguments) {
  const std::string path = folder / name;
  arguments.insert(arguments.begin(), "profile");
  arguments.insert(arguments.end(), {"-o", path});
  const ProgramResult result = run_program(arguments);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return path;
}

// Every value of an expectation table, row by row, within 1e-5 relative.
void check_expected(const std::string& profile, const std::string& expected_path) {
  CsvTable expected = read_table(expected_path);
  const CsvTable examples = export_table(profile, "examples");
  if (!kTasks.empty()) std::erase_if(expected.rows, [](const auto& row) { return row[0] != kTasks[1]; });
  const std::vector<std::string> key = {"task", "example_id", "layer", "head"};
  const auto rows = examples.index(key);
  REQUIRE(!expected.rows.empty());
  for (const std::string& column : expected.columns) {
    if (std::find(key.begin(), key.end(), column) != key.end()) continue;
    std::vector<double> value, reference;
    for (std::size_t row = 0; row < expected.rows.size(); ++row) {
      const auto found = rows.find(expected.key_of(row, key));
      REQUIRE_MESSAGE(found != rows.end(), "no row for " << expected.key_of(row, key));
      value.push_back(examples.number(found->second, column));
      reference.push_back(expected.number(row, column));
    }
    CHECK_COMPARISON(compare_relative(column, value, reference, 1e-5));
  }
}

std::string write_random(const TempDir& folder, const std::string& name, const RandomCache& sizes = {}) {
  const std::string path = folder / name;
  write_cache(path, random_cache(sizes));
  return path;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("profile: the shipped cache agrees with direct summation by a separate program") {
  TempDir folder;
  std::vector<std::string> arguments = {kShippedCache, "--heads", "all", "--exact-reversal"};
  arguments.insert(arguments.end(), kTasks.begin(), kTasks.end());
  const std::string profile = profile_of(folder, "p.h5", arguments);
  check_expected(profile, ROPE_SOURCE_DIR "/tests/data/expected_smollm2_shipped.csv");
}

TEST_CASE("profile: the shared caches agree with their expected values") {
  if (shared_folder().empty()) return;
  for (const std::string model : {"smollm2", "gemma3"}) {
    TempDir folder;
    CAPTURE(model);
    const std::string data = shared_folder() + "/data/";
    std::vector<std::string> arguments = {data + model + ".h5", "--heads", "all", "--exact-reversal"};
    arguments.insert(arguments.end(), kTasks.begin(), kTasks.end());
    const std::string profile = profile_of(folder, "p.h5", arguments);
    check_expected(profile, data + "expected_" + model + ".csv");
  }
}

TEST_CASE("profile: local and global layers have their own grids and windows") {
  if (shared_folder().empty()) return;
  TempDir folder;
  const std::string profile = profile_of(
      folder, "p.h5", {shared_folder() + "/data/gemma3.h5", "--heads", "all", "--tasks", "niah_single"});
  const CsvTable examples = export_table(profile, "examples");
  const CsvTable frequencies = export_table(profile, "frequencies");
  for (std::size_t row = 0; row < examples.rows.size(); ++row) {
    const bool global = static_cast<int>(examples.number(row, "layer")) % 6 == 5;
    if (!global) CHECK(examples.number(row, "window") <= 512);
    if (global) CHECK(examples.number(row, "window") > 512);
  }
  for (std::size_t row = 0; row < frequencies.rows.size(); ++row) {
    if (frequencies.number(row, "pair") != 127) continue;
    const double theta = static_cast<int>(frequencies.number(row, "layer")) % 6 == 5 ? 1e6 : 1e4;
    CHECK(frequencies.number(row, "omega") == doctest::Approx(std::pow(theta, -127.0 / 128)).epsilon(1e-12));
  }
}

TEST_CASE("profile: near-far order and barrier come when asked for, with their parameters on record") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5", {.examples = 2, .window = 60});
  const std::string plain = profile_of(folder, "plain.h5", {cache, "--heads", "all"}),
                    asked = profile_of(
                        folder, "asked.h5",
                        {cache, "--heads", "all", "--metrics", "aliasing,near_far:50,barrier:-0.5"}),
                    own = profile_of(folder, "own.h5",
                                     {cache, "--heads", "all", "--metrics", "near_far,barrier:1e-1"});
  const std::vector<std::string> order = {"near_far_order", "near_far_gaussian"},
                                 barrier = {"barrier_exceedance", "barrier_gaussian",
                                            "barrier_gaussian_limit"};
  for (const std::string table : {"tasks", "heads", "examples"}) {
    CAPTURE(table);
    const CsvTable none = export_table(plain, table), values = export_table(asked, table),
                   layer = export_table(own, table);
    // New columns stand at the end, after all that were there before.
    CHECK(std::vector<std::string>(values.columns.end() - 6, values.columns.end()) ==
          std::vector<std::string>{"aliasing_f16", "near_far_order", "near_far_gaussian",
                                   "barrier_exceedance", "barrier_gaussian", "barrier_gaussian_limit"});
    REQUIRE(!values.rows.empty());
    for (std::size_t row = 0; row < values.rows.size(); ++row) {
      CHECK(values.text(row, "positional_score").empty());
      for (const auto& columns : {order, barrier})
        for (const std::string& column : columns) {
          CHECK(none.text(row, column).empty());
          CHECK(values.number(row, column) >= 0);
          CHECK(values.number(row, column) <= 1);
        }
      CHECK(values.number(row, "aliasing_f16") < values.number(row, "aliasing"));
      CHECK(values.number(row, "near_far_order") != layer.number(row, "near_far_order"));
      CHECK(values.number(row, "barrier_exceedance") > layer.number(row, "barrier_exceedance"));
      CHECK(layer.text(row, "aliasing_f16").empty());
    }
  }
  const ProfileReader profile(asked);
  const Settings& settings = profile.header().settings;
  const auto has = [&](const char* name, const char* value) {
    return std::find(settings.begin(), settings.end(), std::pair<std::string, std::string>(name, value)) !=
           settings.end();
  };
  CHECK(has("metrics", "aliasing,near_far:50,barrier:-0.5"));
  CHECK(has("near_far_window", "50"));
  CHECK(has("barrier", "-0.5"));
  const ProfileReader unasked(plain);
  for (const auto& [name, value] : unasked.header().settings) CHECK(name != "barrier");
}

TEST_CASE("profile: near-far order, barrier and aliasing do not depend on threads, memory or file order") {
  TempDir folder;
  const std::string one = write_random(folder, "one.h5",
                                       {.seed = 4, .examples = 3, .window = 300, .tasks = {"a"}}),
                    two = write_random(folder, "two.h5",
                                       {.seed = 5, .examples = 2, .window = 300, .tasks = {"b"}});
  const std::vector<std::string> asked = {
      "--metrics", "near_far,barrier:0.25,aliasing", "--heads", "top:0.5", "--digest", "none"};
  std::string expected;
  for (const auto& files : {std::vector{one, two}, std::vector{two, one}})
    for (const std::string threads : {"1", "2", "5"})
      for (const std::string memory : {"64M", "512M"}) {
        std::vector<std::string> arguments = {"--threads", threads, "--memory", memory, "--force"};
        arguments.insert(arguments.begin(), files.begin(), files.end());
        arguments.insert(arguments.end(), asked.begin(), asked.end());
        const std::string profile = profile_of(folder, "p.h5", arguments);
        const std::string text = run_program({"export", profile, "--table", "examples"}).out;
        if (expected.empty()) expected = text;
        CHECK(text == expected);
      }
  CHECK(expected.size() > 500);
}

TEST_CASE("profile: bad near-far windows and barriers") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5");
  const auto refused = [&](const std::string& metrics, const std::vector<std::string>& parts) {
    CAPTURE(metrics);
    check_failure(run_program({"profile", cache, "--metrics", metrics}), 2, parts);
  };
  for (const std::string m : {"0", "-3", "5592406", "1.5", "", "x", "99999999999999999999"})
    refused("near_far:" + m, {"near_far:M", "1 to 5592405"});
  refused("near_far,near_far:5", {"near_far", "twice"});
  for (const std::string level : {"", "inf", "nan", "1,5,x", "0x1", "1e999", "2 "})
    refused("barrier:" + level, {"--metrics"});
  refused("barrier", {"barrier:S0", "finite"});
  refused("barrier:1,barrier:1", {"barrier", "twice"});
  refused("near_fat", {"unknown metric", "near_fat"});
  // The layer's own M can be too long for three windows.
  check_failure(run_program({"profile", cache, "--metrics", "near_far", "--window", "5592406"}), 2,
                {"near_far", "5592406", "2^24"});
}

TEST_CASE("profile: a window of one distance has an order and a barrier, but no sweep") {
  TempDir folder;
  CacheSpec cache = random_cache({.examples = 1});
  std::string& config = *cache.model.config;
  config.replace(config.find("llama"), 5, "mistral");
  config.insert(config.size() - 1, ", \"sliding_window\": 1");
  write_cache(folder / "one.h5", cache);
  const std::string profile = profile_of(
      folder, "p.h5", {folder / "one.h5", "--heads", "all", "--metrics", "positional,near_far,barrier:0"});
  const CsvTable heads = export_table(profile, "heads");
  for (std::size_t row = 0; row < heads.rows.size(); ++row) {
    CHECK(heads.text(row, "positional_score").empty());
    // One near and one far distance, no variance: both values are shares of the same certainties.
    CHECK(heads.number(row, "near_far_order") == heads.number(row, "near_far_gaussian"));
    CHECK(heads.number(row, "barrier_exceedance") == heads.number(row, "barrier_gaussian"));
    CHECK(heads.number(row, "barrier_exceedance") > 0);
  }
}

TEST_CASE("profile: two models are refused with the reason") {
  TempDir folder;
  const std::string one = write_random(folder, "one.h5");
  CacheSpec other = random_cache();
  SUBCASE("another name") {
    other.model.name = "other";
    write_cache(folder / "two.h5", other);
    check_failure(run_program({"profile", one, folder / "two.h5"}), 3, {"two.h5", "/model", "name", "other"});
  }
  SUBCASE("another base") {
    other.model.config = llama_config(2, 4, 2, 16, 500000.0);
    write_cache(folder / "two.h5", other);
    check_failure(run_program({"profile", one, folder / "two.h5"}), 3, {"two.h5", "one.h5", "differs"});
  }
  if (!shared_folder().empty()) {
    const std::string data = shared_folder() + "/data/";
    check_failure(run_program({"profile", data + "smollm2.h5", data + "gemma3.h5"}), 3,
                  {"gemma3.h5", "/model", "SmolLM2", "Gemma"});
  }
}

TEST_CASE("profile: the same bytes for any number of threads") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5", {.query_slots = 3, .key_slots = 9});
  std::vector<std::string> bytes;
  for (const std::string threads : {"1", "2", "5"})
    bytes.push_back(read_file(profile_of(folder, "p" + threads + ".h5",
                                         {cache, "--threads", threads, "--exact-reversal", "--metrics",
                                          "semantic,positional,share,length,usage,aliasing"})));
  CHECK(bytes[0] == bytes[1]);
  CHECK(bytes[0] == bytes[2]);
}

TEST_CASE("profile: a disk that is full is one error line, and nothing is left behind") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5", {.examples = 4});
  for (const long limit : {1L << 10, 1L << 13, 1L << 14, 1L << 15}) {
    BinaryOptions options;
    options.file_limit = limit;
    check_failure(run_binary({"profile", cache, "-q", "-o", folder / "p.h5"}, options), 3,
                  {"p.h5", "File too large"});
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      files += entry.is_regular_file();
    CHECK(files == 1);
  }
}

TEST_CASE("profile: --memory and --verbose change no byte; bad sizes are refused") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5", {.examples = 9});
  const std::string bytes = read_file(profile_of(folder, "p.h5", {cache}));
  int n = 0;
  for (const std::string memory : {"64M", "65536K", "67108864", "2G", "1T"})
    CHECK(read_file(profile_of(folder, "m" + std::to_string(n++), {cache, "--memory", memory})) == bytes);
  for (const std::string memory :
       {"63M", "0", "1", "-512M", "512m", "512MB", "1.5G", "M", "9999999999999999999", "9000000000T"})
    check_failure(run_program({"profile", cache, "--memory=" + memory}), 2, {"--memory", "64M", memory});

  const ProgramResult told = run_program({"profile", cache, "-v", "-o", folder / "v.h5"});
  REQUIRE(told.exit_code == 0);
  CHECK(read_file(folder / "v.h5") == bytes);
  for (const char* key : {"timing: wall=", " cpu=", " reading=", " coefficients=", " plans=", " moments=",
                          " sweep=", " writing=", " digests=", " other=", "pass: vector_bytes="})
    CHECK_MESSAGE(told.err.find(key) != std::string::npos, key);
  const auto passes = [&](const ProgramResult& result) {
    std::vector<std::int64_t> read;
    for (std::size_t at = 0; (at = result.err.find("vector_bytes=", at)) != std::string::npos;) {
      at += 13;
      if (result.err.compare(at - 18, 5, "peak_") != 0) read.push_back(std::stoll(result.err.substr(at)));
    }
    return read;
  };
  // All heads once; then one of 8 heads with its key head. 2 tasks, 9 examples, 16 lanes of 2 bytes.
  CHECK(passes(told) ==
        std::vector<std::int64_t>{2 * 9 * 32 * 2 * (4 * 2 + 2 * 6), 2 * 9 * 32 * (2 * 2 + 6)});
  CHECK(passes(run_program({"profile", cache, "-v", "--heads", "all"})).size() == 1);
  CHECK(passes(run_program({"profile", cache, "-v", "--metrics", "semantic"})).size() == 1);
}

TEST_CASE("profile: files may come in any order and one cache may be split, by examples and by layers") {
  TempDir folder;
  const CacheSpec whole = random_cache({.num_layers = 3, .examples = 5});
  write_cache(folder / "whole.h5", whole);
  auto write_part = [&](const std::string& name, auto select) {
    CacheSpec part = whole;
    for (TaskSpec& task : part.tasks) task = select(task);
    write_cache(folder / name, part);
  };
  const std::vector<std::string> heads = {"--heads", "all", "--exact-reversal"};
  auto profile = [&](const std::string& name, std::vector<std::string> files) {
    for (std::string& file : files) file = folder / file;
    files.insert(files.end(), heads.begin(), heads.end());
    return profile_of(folder, name, files);
  };
  const ProfileContent expected = profile_content(profile("whole.p", {"whole.h5"}));
  const auto rows = [](std::vector<std::int64_t> which) {
    return [which](const TaskSpec& task) { return select_examples(task, which); };
  };
  write_part("a.h5", rows({4, 1}));
  write_part("b.h5", rows({0}));
  write_part("c.h5", rows({3, 2}));
  for (const auto& order : {std::vector<std::string>{"a.h5", "b.h5", "c.h5"}, {"c.h5", "a.h5", "b.h5"}}) {
    const ProfileContent content = profile_content(profile("split" + order[0] + ".p", order));
    CHECK(content == expected);
  }
  write_part("l0.h5", [](const TaskSpec& task) { return select_layers(task, {1}); });
  write_part("l1.h5", [](const TaskSpec& task) { return select_layers(task, {0, 2}); });
  CHECK(profile_content(profile("layers.p", {"l0.h5", "l1.h5"})) == expected);
  CHECK(profile_content(profile("layers2.p", {"l1.h5", "l0.h5"})) == expected);
}

TEST_CASE("profile: layout, rotation, element type and storage do not change the scores") {
  TempDir folder;
  CacheSpec base = random_cache({.type = ElementType::kFloat64});
  // Values that every element type holds exactly.
  for (TaskSpec& task : base.tasks)
    for (std::vector<double>* side : {&task.query, &task.key})
      for (double& x : *side) x = std::round(x * 16) / 16;
  write_cache(folder / "base.h5", base);
  auto scores = [&](const std::string& name) {
    return export_table(
        profile_of(folder, name + ".p", {folder / name, "--heads", "all", "--exact-reversal"}), "examples");
  };
  const CsvTable expected = scores("base.h5");
  auto check_same = [&](const std::string& what, const CacheSpec& cache, double bound) {
    CAPTURE(what);
    write_cache(folder / (what + ".h5"), cache);
    const CsvTable table = scores(what + ".h5");
    REQUIRE(table.rows.size() == expected.rows.size());
    for (const std::string column :
         {"semantic_score", "exact_semantic_score", "positional_score", "norm_share",
          "effective_length_virtual", "response_max", "usage_cov", "usage_centroid", "frequency_mass"}) {
      std::vector<double> value, reference;
      for (std::size_t row = 0; row < table.rows.size(); ++row) {
        value.push_back(table.number(row, column));
        reference.push_back(expected.number(row, column));
      }
      CHECK_COMPARISON(compare_relative(what + " " + column, value, reference, bound));
    }
  };
  auto with = [&](auto change) {
    CacheSpec cache = base;
    change(cache);
    return cache;
  };
  auto with_tasks = [&](auto change) {
    return with([&](CacheSpec& cache) {
      for (TaskSpec& task : cache.tasks) change(task);
    });
  };
  auto type = [&](ElementType element) {
    return with_tasks([&](TaskSpec& task) { task.header.query_type = task.header.key_type = element; });
  };
  check_same("interleaved", with([](CacheSpec& c) { c.model.layout = spectral::PairLayout::kInterleaved; }),
             1e-12);
  check_same("post_keys", with([](CacheSpec& c) { c.model.key_rotation = Rotation::kPost; }), 1e-8);
  check_same("post_both", with([](CacheSpec& c) {
               c.model.key_rotation = c.model.query_rotation = Rotation::kPost;
               c.model.layout = spectral::PairLayout::kInterleaved;
             }),
             1e-8);
  check_same("f16", type(ElementType::kFloat16), 1e-12);
  check_same("bf16", type(ElementType::kBfloat16), 1e-12);
  check_same("f32", type(ElementType::kFloat32), 1e-12);
  check_same("bf16_bits", with_tasks([](TaskSpec& task) {
               task.header.query_type = task.header.key_type = ElementType::kBfloat16;
               task.storage.bfloat16_bits = true;
             }),
             1e-12);
  check_same("big_endian", with_tasks([](TaskSpec& task) {
               task.header.query_type = task.header.key_type = ElementType::kFloat32;
               task.storage.big_endian = true;
             }),
             1e-12);
  check_same("chunked", with_tasks([](TaskSpec& task) { task.storage.chunk = {1, 1, 1, 0, 0}; }), 1e-12);
  check_same("gzip", with_tasks([](TaskSpec& task) {
               task.storage.chunk = {2, 0, 0, 0, 0};
               task.storage.gzip = 4;
               task.storage.shuffle = task.storage.fletcher32 = true;
             }),
             1e-12);
  check_same("lzf", with_tasks([](TaskSpec& task) {
               task.storage.chunk = {1, 0, 0, 0, 0};
               task.storage.lzf = true;
             }),
             1e-12);
}

TEST_CASE("profile: scores do not change with the scale of the queries, but for E_2") {
  TempDir folder;
  CacheSpec cache = random_cache({.type = ElementType::kFloat32});
  write_cache(folder / "one.h5", cache);
  for (TaskSpec& task : cache.tasks)
    for (double& x : task.query) x *= 4;
  write_cache(folder / "four.h5", cache);
  auto table = [&](const std::string& name) {
    return export_table(profile_of(folder, name + ".p", {folder / name, "--heads", "all"}), "examples");
  };
  const CsvTable one = table("one.h5"), four = table("four.h5");
  for (const std::string column :
       {"semantic_score", "positional_score", "norm_share", "response_max", "usage_cov"})
    for (std::size_t row = 0; row < one.rows.size(); ++row)
      CHECK(four.number(row, column) == doctest::Approx(one.number(row, column)).epsilon(1e-12));
  for (std::size_t row = 0; row < one.rows.size(); ++row)
    CHECK(four.number(row, "effective_length_virtual") < one.number(row, "effective_length_virtual"));
}

TEST_CASE("profile: without -o it prints the table and writes no file; -o - sends the file to stdout") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5");
  const ProgramResult shown = run_program({"profile", cache});
  REQUIRE(shown.exit_code == 0);
  for (const char* title : {"task", "family", "examples", "window", "Semantic", "Positional", "r_S", "r_P",
                            "w_S", "direction", "alpha", "beta", "left out"})
    CHECK(shown.out.find(title) != std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);

  const ProgramResult piped = run_program({"profile", cache, "-o", "-"});
  REQUIRE(piped.exit_code == 0);
  CHECK(piped.out.substr(1, 3) == "HDF");
  CHECK(piped.out == read_file(profile_of(folder, "p.h5", {cache})));
  CHECK(piped.err.find("w_S") != std::string::npos);
}

TEST_CASE("profile: an existing output is kept without --force, and nothing appears after a failure") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5");
  const std::string profile = profile_of(folder, "p.h5", {cache});
  const std::string before = read_file(profile);
  check_failure(run_program({"profile", cache, "-o", profile}), 2, {"p.h5", "exists"});
  CHECK(read_file(profile) == before);
  CHECK(run_program({"profile", cache, "-o", profile, "--force"}).exit_code == 0);

  CacheSpec broken = random_cache();
  broken.tasks[1].query_position[0] = 100000;  // past the window: found while scoring
  write_cache(folder / "broken.h5", broken);
  check_failure(run_program({"profile", folder / "broken.h5", "-o", folder / "q.h5"}), 3,
                {"broken.h5", "/tasks/beta/query_position"});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 3);
}

TEST_CASE("profile: --heads, --selection and their combinations") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5", {.num_layers = 4});
  auto selected = [&](const std::string& profile) {
    std::vector<std::string> heads;
    const CsvTable table = export_table(profile, "heads");
    for (std::size_t row = 0; row < table.rows.size(); ++row)
      if (table.text(row, "selected") == "true" && table.text(row, "task") == "alpha")
        heads.push_back(table.text(row, "layer") + "." + table.text(row, "head"));
    return heads;
  };
  const std::string top = profile_of(folder, "top.p", {cache});
  CHECK(selected(top).size() == 1);  // ceil(0.05 * 16)
  CHECK(selected(profile_of(folder, "top25.p", {cache, "--heads", "top:0.25"})).size() == 4);
  CHECK(selected(profile_of(folder, "all.p", {cache, "--heads", "all"})).size() == 16);
  CHECK(selected(profile_of(folder, "list.p", {cache, "--heads", "3.1,0.2"})) ==
        std::vector<std::string>{"0.2", "3.1"});
  CHECK(selected(profile_of(folder, "reuse.p", {cache, "--selection", top})) == selected(top));
  CHECK(selected(profile_of(folder, "recut.p", {cache, "--selection", top, "--heads", "top:0.25"})) ==
        selected(folder / "top25.p"));
  // The selection's ranking is the same whatever --heads was.
  const CsvTable ranked = export_table(top, "selection"),
                 ranked_all = export_table(folder / "all.p", "selection");
  REQUIRE(ranked.rows.size() == 16);
  for (std::size_t row = 0; row < ranked.rows.size(); ++row)
    for (const char* column : {"rank", "layer", "head", "variance", "stage"})
      CHECK(ranked_all.text(row, column) == ranked.text(row, column));
  // A head's values do not depend on which others were selected.
  const CsvTable all = export_table(folder / "all.p", "examples"),
                 some = export_table(folder / "list.p", "examples");
  const auto rows = all.index({"task", "example_id", "layer", "head"});
  int compared = 0;
  for (std::size_t row = 0; row < some.rows.size(); ++row) {
    if (some.text(row, "positional_score").empty()) continue;
    CHECK(some.rows[row] == all.rows[rows.at(some.key_of(row, {"task", "example_id", "layer", "head"}))]);
    ++compared;
  }
  CHECK(compared == 2 * 3 * 2);

  check_failure(run_program({"profile", cache, "--selection", top, "--heads", "all"}), 2,
                {"--selection", "--heads"});
  check_failure(run_program({"profile", cache, "--heads", "9.0"}), 2, {"layer 9 head 0"});
  check_failure(run_program({"profile", cache, "--heads", "top:0"}), 2, {"\"0\"", "share of the heads"});
  check_failure(run_program({"profile", cache, "--heads", "some"}), 2, {"some"});
}

TEST_CASE("profile: --metrics, --tasks, --window") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5");
  const CsvTable share = export_table(
      profile_of(folder, "share.p", {cache, "--heads", "all", "--metrics", "share"}), "examples");
  CHECK(!share.text(0, "norm_share").empty());
  for (const char* column : {"semantic_score", "positional_score", "effective_length_virtual", "usage_cov"})
    CHECK(share.text(0, column).empty());

  const CsvTable beta = export_table(profile_of(folder, "beta.p", {cache, "--tasks", "b*"}), "tasks");
  REQUIRE(beta.rows.size() == 1);
  CHECK(beta.text(0, "task") == "beta");
  check_failure(run_program({"profile", cache, "--tasks", "z*"}), 2, {"--tasks"});

  const CsvTable window = export_table(profile_of(folder, "w.p", {cache, "--window", "150"}), "tasks");
  for (const char* column : {"window_min", "window_mean", "window_max"})
    CHECK(window.number(0, column) == 150);
  check_failure(run_program({"profile", cache, "--window", "1"}), 2, {"--window", "2 to 16777216"});
  check_failure(run_program({"profile", cache, "--metrics", "semantic,speed"}), 2, {"speed"});
  check_failure(run_program({"profile", cache, "--split", "custom:1"}), 2, {"--split"});
  check_failure(run_program({"profile", cache, "--exact-reversal", "--metrics", "share"}), 2, {"semantic"});
}

TEST_CASE("an output is never one of the inputs, by whatever name") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5"), profile = profile_of(folder, "p.h5", {cache});
  const std::string before = read_file(cache), linked = folder / "link.h5";
  std::filesystem::create_hard_link(cache, linked);
  for (const std::string& output : {cache, linked, (folder.path() / "." / "cache.h5").string()})
    check_failure(run_program({"profile", cache, "-o", output, "--force"}), 2, {"output", "input"});
  check_failure(run_program({"profile", cache, "--selection", profile, "-o", profile, "--force"}), 2,
                {"p.h5", "input"});
  check_failure(run_program({"rank", profile, "-o", profile, "--force"}), 2, {"p.h5", "input"});
  check_failure(run_program({"export", profile, "--table", "tasks", "-o", profile, "--force"}), 2,
                {"p.h5", "input"});
  CHECK(read_file(cache) == before);
}

TEST_CASE("profile: a selection that means nothing is said, one of another model refused") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5");
  const auto warnings = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"profile", cache});
    const ProgramResult result = run_program(arguments);
    REQUIRE(result.exit_code == 0);
    return result.err;
  };
  CHECK(warnings({}).find("warning") == std::string::npos);
  CHECK(warnings({"--tasks", "alpha"}).find("at least two tasks: all heads") != std::string::npos);
  CHECK(warnings({"--split", "prefix:0"}).find("no head varies") != std::string::npos);
  CHECK(warnings({"--tasks", "alpha", "--heads", "all"}).find("warning") == std::string::npos);

  CacheSpec other = random_cache();
  other.model.name = "another model";
  write_cache(folder / "other.h5", other);
  const std::string profile = profile_of(folder, "p.h5", {cache});
  check_failure(run_program({"profile", folder / "other.h5", "--selection", profile}), 3,
                {"p.h5", "/model", "another model"});
}

TEST_CASE("profile: values whose sums would overflow are counted as non-finite, never shown as infinite") {
  TempDir folder;
  CacheSpec cache = random_cache({.type = ElementType::kFloat64});
  cache.tasks[0].query[0] = 1e308;
  cache.tasks[1].key[3] = 1e300;
  write_cache(folder / "huge.h5", cache);
  const std::string profile = profile_of(folder, "p.h5", {folder / "huge.h5", "--heads", "all"});
  const CsvTable tasks = export_table(profile, "tasks");
  for (std::size_t row = 0; row < tasks.rows.size(); ++row) CHECK(tasks.number(row, "non_finite") > 0);
  for (const char* table : {"tasks", "heads", "examples", "frequencies"})
    for (const auto& row : export_table(profile, table).rows)
      for (const std::string& field : row) CHECK(field.find("inf") == std::string::npos);
}

TEST_CASE("profile: equal frequencies without a config have an empty H") {
  TempDir folder;
  CacheSpec cache = random_cache();
  cache.model.config.reset();
  cache.model.inv_freq_shape = {8};
  cache.model.inv_freq.assign(8, 0.5);
  cache.omega = {cache.model.inv_freq};
  write_cache(folder / "equal.h5", cache);
  const CsvTable examples =
      export_table(profile_of(folder, "p.h5", {folder / "equal.h5", "--heads", "all"}), "examples");
  for (std::size_t row = 0; row < examples.rows.size(); ++row) {
    CHECK(examples.number(row, "high_pairs") == 0);
    CHECK(examples.number(row, "norm_share") == 0);
    CHECK(examples.number(row, "positional_score") > 0);
  }
}

TEST_CASE("option values that are empty or out of range are usage errors") {
  TempDir folder;
  const std::string cache = write_random(folder, "cache.h5"), profile = profile_of(folder, "p.h5", {cache});
  for (const char* option : {"--heads", "--window", "--config", "--tasks", "--selection"})
    check_failure(run_program({"profile", cache, option, ""}), 2, {option, "empty"});
  check_failure(run_program({"profile", ""}), 2, {"empty"});
  check_failure(run_program({"profile", cache, "--device", "-1"}), 2, {"--device"});
  for (const char* seed : {"-1", "18446744073709551616", "1e3", "x"})
    for (const auto& command : {std::vector<std::string>{"rank", profile},
                                {"synth", "-o", folder / "s.h5"},
                                {"sample", folder / "t.jsonl", "-o", "-"}}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--seed", seed});
      check_failure(run_program(arguments), 2, {"--seed", seed});
    }
  check_failure(run_program({"profile", cache, "--config", folder.path().string()}), 3, {"folder"});
}

TEST_SUITE_END();
