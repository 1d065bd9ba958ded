#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "support/cache_writer.hpp"
#include "support/hdf5_edit.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/shared_folder.hpp"
#include "support/temp_dir.hpp"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace rope;
using nlohmann::json;

json inspect_json(const std::vector<std::string>& files, int exit_code) {
  std::vector<std::string> arguments = {"inspect", "--json"};
  arguments.insert(arguments.end(), files.begin(), files.end());
  const test::ProgramResult result = test::run_program(arguments);
  CHECK(result.exit_code == exit_code);
  json document = json::parse(result.out);
  test::check_schema("inspect", document);
  return document;
}

bool any_contains(const json& texts, const std::string& piece) {
  for (const json& text : texts)
    if (text.get<std::string>().find(piece) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("inspect describes a good cache and exits 0") {
  const test::TempDir dir;
  const std::string path = dir / "good.h5";
  test::write_cache(path, test::random_cache());
  const test::ProgramResult result = test::run_program({"inspect", path});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  for (const char* piece : {"random test model (llama)", "layout half, queries pre, keys pre", "0-1",
                            "default", "alpha", "sampled", "float16", "checks passed"}) {
    CAPTURE(piece);
    CHECK(result.out.find(piece) != std::string::npos);
  }
  const json document = inspect_json({path, path}, 0);
  REQUIRE(document["files"].size() == 2);
  const json& file = document["files"][0];
  CHECK(file["passed"] == true);
  CHECK(file["model"]["model_type"] == "llama");
  REQUIRE(file["layers"].size() == 2);
  const json& layer = file["layers"][1];
  CHECK(layer["layer"] == 1);
  CHECK(layer["rope_type"] == "default");
  CHECK(layer["theta"] == 10000.0);
  CHECK(layer["pairs"] == 8);
  CHECK(layer["rotary_dim"] == 16);
  CHECK(layer["attention_factor"] == 1.0);
  CHECK(layer["logit_scale"] == 0.25);
  CHECK(layer["window"].is_null());
  REQUIRE(layer["inv_freq"].size() == 8);
  for (std::size_t n = 0; n < 8; ++n)
    CHECK(layer["inv_freq"][n].get<double>() ==
          doctest::Approx(std::pow(10000.0, -static_cast<double>(n) / 8)).epsilon(1e-12));
  // H(M) = {M w >= 2C/((1-rho) eps)}, rho = 1e4^(-1/8), M = 220: gamma is 1.755, 1.463 and 1837.
  CHECK(layer["high_pairs"]["window"] == 220);
  CHECK(layer["high_pairs"]["operational"] == 5);
  CHECK(layer["high_pairs"]["intervention"] == 5);
  CHECK(layer["high_pairs"]["certified"] == 0);
  const json& task = file["tasks"][0];
  CHECK(task["task"] == "alpha");
  CHECK(task["window"] == json({{"min", 200}, {"mean", 210.0}, {"max", 220}}));
  CHECK(task["query"] == json({{"used_slots", 6}, {"vectors", 48}, {"zero", 0}, {"non_finite", 0}}));
  CHECK(task["key"] == json({{"used_slots", 18}, {"vectors", 72}, {"zero", 0}, {"non_finite", 0}}));
}

TEST_CASE("inspect counts zero and non-finite vectors of used slots as warnings") {
  const test::TempDir dir;
  test::CacheSpec cache = test::random_cache();
  auto& task = cache.tasks[0];
  std::fill(task.query.begin(), task.query.begin() + 16, 0.0);      // one vector
  task.key[16 * 3 + 2] = std::numeric_limits<double>::quiet_NaN();  // slot 3
  task.key[16 * 4 + 5] = std::numeric_limits<double>::infinity();   // slot 4
  task.key[16 * 5 + 5] = 1e9;                                       // slot 5: overflows float16
  task.key_position[4] = -1;                                        // slot 4 of example 0 is unused
  test::write_cache(dir / "odd.h5", cache);
  const json document = inspect_json({dir / "odd.h5"}, 0);
  const json& file = document["files"][0];
  CHECK(file["tasks"][0]["query"]["zero"] == 1);
  CHECK(file["tasks"][0]["key"]["non_finite"] == 2);
  CHECK(file["tasks"][0]["key"]["vectors"] == 68);
  CHECK(any_contains(file["warnings"], "alpha: 1 of 48 query vectors are zero"));
  CHECK(any_contains(file["warnings"], "alpha: 2 of 68 key vectors hold an infinity or NaN"));
  const test::ProgramResult result = test::run_program({"inspect", dir / "odd.h5"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("warning: task alpha: 1 of 48 query vectors are zero") != std::string::npos);
}

TEST_CASE("inspect lists every check and exits 1 when one fails") {
  const test::TempDir dir;
  const std::string path = dir / "bad.h5";
  test::write_cache(path, test::random_cache());
  {
    test::Hdf5Edit edit(path);
    edit.set("/tasks/alpha/window", {1}, 1);
    edit.set("/tasks/beta/key_position", {0, 5}, 199);
  }
  const test::ProgramResult result = test::run_program({"inspect", path});
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("FAILED  /tasks/alpha/window: values") != std::string::npos);
  CHECK(result.out.find("FAILED  /tasks/beta: positions and triplets") != std::string::npos);
  CHECK(result.out.find("ok      /model: rope_layout") != std::string::npos);
  CHECK(result.out.find("2 of ") != std::string::npos);
  const json document = inspect_json({path}, 1);
  const json& file = document["files"][0];
  CHECK(file["passed"] == false);
  CHECK(file["tasks"][0]["window"].is_null());
  CHECK(file["tasks"][1]["window"]["max"] == 220);
  CHECK(file["tasks"][1]["key"]["vectors"] == 72);
  std::size_t failed = 0;
  for (const json& check : file["checks"]) {
    CHECK(check["detail"].get<std::string>().empty() == check["passed"].get<bool>());
    failed += check["passed"] == false;
  }
  CHECK(failed == 2);
}

TEST_CASE("inspect of a header that breaks the format still gives the schema's document") {
  const test::TempDir dir;
  const std::string path = dir / "bad.h5";
  test::write_cache(path, test::random_cache());
  {
    test::Hdf5Edit edit(path);
    edit.drop_attribute("/model", "rope_layout");
    edit.text("/model", "name", "\xff\x1b");
    edit.unlink("/tasks/alpha/key");
  }
  const json document = inspect_json({path}, 1);
  const json& file = document["files"][0];
  CHECK(file["model"].is_null());
  std::size_t failed = 0;
  for (const json& check : file["checks"]) failed += check["passed"] == false;
  CHECK(failed == 3);
  const test::ProgramResult result = test::run_program({"inspect", path});
  CHECK(result.exit_code == 1);
  CHECK(result.out.find('\x1b') == std::string::npos);
}

TEST_CASE("inspect fails the check of frequencies that the config does not give") {
  const test::TempDir dir;
  test::CacheSpec cache = test::random_cache();
  cache.model.inv_freq_shape = {8};
  cache.model.inv_freq = cache.omega[0];
  test::write_cache(dir / "good.h5", cache);
  inspect_json({dir / "good.h5"}, 0);
  const auto refused = [&](double value) {
    test::CacheSpec bad = cache;
    bad.model.inv_freq[3] = value;
    test::write_cache(dir / "bad.h5", bad);
    const json document = inspect_json({dir / "bad.h5"}, 1);
    for (const json& check : document["files"][0]["checks"])
      if (check["name"] == "/model: frequencies and logit scale") return check["passed"] == false;
    return false;
  };
  CHECK(refused(cache.omega[0][3] * 1.0001));
  CHECK(refused(-0.1));
  CHECK(refused(3.2));
  CHECK(refused(std::numeric_limits<double>::quiet_NaN()));
  cache.model.config.reset();
  cache.model.inv_freq_shape.clear();
  cache.model.inv_freq.clear();
  test::write_cache(dir / "none.h5", cache);
  const json document = inspect_json({dir / "none.h5"}, 0);
  CHECK(any_contains(document["files"][0]["warnings"], "--config"));
  cache.model.config = "{\"model_type\": ";
  test::write_cache(dir / "broken.h5", cache);
  inspect_json({dir / "broken.h5"}, 1);
}

TEST_CASE("failed checks come with the place and the hint that profile gives") {
  const test::TempDir dir;
  const std::string path = dir / "bad.h5";
  test::write_cache(path, test::random_cache());
  {
    test::Hdf5Edit edit(path);
    edit.dataset("/tasks/alpha/query", H5T_STD_U16LE, {3, 2, 4, 2, 16});
    edit.set("/tasks/beta/key_position", {1, 5}, 209);
    edit.drop_attribute("/model", "key_rotation");
    edit.group("/tasks/nested");
    edit.group("/tasks/nested/inner");
  }
  const json document = inspect_json({path}, 1);
  const auto member = [&](const std::string& name, const char* key) {
    for (const json& check : document["files"][0]["checks"])
      if (check["name"] == name) return check[key].get<std::string>();
    return std::string("no such check");
  };
  CHECK(member("/tasks/alpha/query: shape and type", "hint").find("dtype = \"bfloat16\"") !=
        std::string::npos);
  CHECK(member("/tasks/alpha/query: shape and type", "detail").starts_with("expected float16"));
  CHECK(member("/tasks/beta: positions and triplets", "detail")
            .starts_with("/tasks/beta/key_position[1, 5]: expected a key at or before every query"));
  CHECK(member("/tasks/beta: positions and triplets", "hint").find("key_coverage") != std::string::npos);
  CHECK(member("/model: key_rotation", "detail") == "expected \"pre\" or \"post\", found nothing");
  CHECK(member("/model: key_rotation", "hint").find("pre: the vectors right before") != std::string::npos);
  CHECK(member("/tasks/nested/query: shape and type", "hint").find("cannot hold a slash") !=
        std::string::npos);
  CHECK(member("/model: query_rotation", "hint").empty());
  const test::ProgramResult result = test::run_program({"inspect", path});
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("\n          hint: bfloat16 bits in 16-bit integers") != std::string::npos);
}

TEST_CASE("likely mistakes are warnings, of inspect and of profile alike") {
  const test::TempDir dir;
  test::RandomCache sizes;
  sizes.num_layers = 4;
  sizes.layers = {0, 1};
  const test::CacheSpec cache = test::random_cache(sizes);
  test::write_cache(dir / "a.h5", cache);  // no dataset layer: the writer leaves out 0, 1, ...
  test::CacheSpec rest = cache;
  for (test::TaskSpec& task : rest.tasks) task.header.layers = {2, 3};
  test::write_cache(dir / "b.h5", rest);
  for (const char* name : {"a.h5", "b.h5"}) {
    test::Hdf5Edit edit(dir / name);
    edit.text("/model", "rope_dirction", "reversed");
    edit.text("/model", "date", "today");  // two letters from name, but no slip
    edit.text("/tasks/alpha", "famly", "retrieval");
  }
  const std::vector<std::string> expected = {
      "/model: attribute rope_dirction is ignored; did you mean rope_direction?",
      "/tasks/alpha: attribute famly is ignored; did you mean family?",
      "tasks alpha, beta: no dataset layer, and 2 of the model's 4 layers; layers 0 to 1 are assumed"};
  const json document = inspect_json({dir / "a.h5", dir / "b.h5"}, 0);
  CHECK(document["files"][0]["warnings"] == json(expected));
  CHECK(document["files"][1]["warnings"] == json({expected[0], expected[1]}));
  const auto profile = [&](const char* first, const char* second) {
    return test::run_program({"profile", dir / first, dir / second, "-o", dir / "p.h5", "--force"});
  };
  const test::ProgramResult result = profile("a.h5", "b.h5");
  CHECK(result.exit_code == 0);
  for (const std::string& warning : expected) {
    CAPTURE(warning);
    const std::size_t at = result.err.find("warning: " + warning);
    REQUIRE(at != std::string::npos);
    CHECK(result.err.find(warning, at + 20) == std::string::npos);  // once
  }
  CHECK(result.err.find("date") == std::string::npos);
  CHECK(profile("b.h5", "a.h5").err == result.err);
}

TEST_CASE("inspect counts in the singular and shows the four splits in one column") {
  const test::TempDir dir;
  test::RandomCache sizes;
  sizes.num_layers = sizes.kv_heads = 1;
  test::write_cache(dir / "one.h5", test::random_cache(sizes));
  const test::ProgramResult result = test::run_program({"inspect", dir / "one.h5"});
  CHECK(result.out.find("1 layer, 4 query heads, 1 kv head, head_dim 16") != std::string::npos);
  CHECK(result.out.find("5/5/0/") != std::string::npos);
}

TEST_CASE("an HDF5 file cannot come from a pipe") {
  const test::TempDir dir;
  const std::string out = dir / "out";
  for (const std::vector<std::string>& command : {std::vector<std::string>{"inspect", "-"},
                                                  {"profile", "-", "-o", out},
                                                  {"rank", "-"},
                                                  {"export", "-", "--table", "tasks"}})
    test::check_failure(test::run_program(command), 2, {"HDF5 cannot be read from a pipe"});
}

TEST_CASE("a cache given in place of a profile is called what it is") {
  const test::TempDir dir;
  const std::string path = dir / "cache.h5";
  test::write_cache(path, test::random_cache());
  for (const bool fixed : {false, true})
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"rank", path}, {"export", path, "--table", "tasks"}}) {
      CAPTURE(command[0]);
      if (fixed) test::Hdf5Edit(path).fixed_text("/", "format", "rope-profiler/activations", 26);
      const test::ProgramResult result = test::run_program(command);
      test::check_failure(result, 3, {"expected rope-profiler/profile", "rope-profiler/activations"});
      CHECK(result.err.find("this is an activation cache; run profile on it first") != std::string::npos);
    }
  const test::ProgramResult result =
      test::run_program({"profile", path, "--selection", path, "-o", dir / "p.h5"});
  CHECK(result.exit_code == 3);
  CHECK(result.err.find("this is an activation cache; run profile on it first") != std::string::npos);
}

TEST_CASE("inspect of what is no HDF5 file exits 3") {
  const test::TempDir dir;
  test::check_failure(test::run_program({"inspect", dir / "missing.h5"}), 3, {"missing.h5", "No such file"});
  test::check_failure(test::run_program({"inspect", ROPE_SOURCE_DIR "/CMakeLists.txt"}), 3,
                      {"expected an HDF5 file", "cmake_mi"});
  test::check_failure(test::run_program({"inspect"}), 2, {});
}

TEST_CASE("inspect of the real caches, where they are at hand") {
  const std::string shared = rope::test::shared_folder();
  const std::string gemma = shared + "/data/gemma3.h5";
  if (!std::filesystem::exists(gemma)) return;
  const json document = inspect_json({gemma}, 0);
  const json& layers = document["files"][0]["layers"];
  REQUIRE(layers.size() == 18);
  CHECK(layers[0]["theta"] == 10000.0);
  CHECK(layers[0]["window"] == 512);
  CHECK(layers[0]["high_pairs"]["window"] == 512);
  CHECK(layers[5]["theta"] == 1000000.0);
  CHECK(layers[5]["window"].is_null());
  CHECK(document["files"][0]["tasks"][0]["key_type"] == "bfloat16");
  const std::string text = test::run_program({"inspect", gemma}).out;
  for (std::size_t at = text.find("layers  "), end = 0; text[at] != '\n'; at = end + 1) {
    end = text.find('\n', at);
    const auto columns = std::count_if(text.begin() + static_cast<std::ptrdiff_t>(at),
                                       text.begin() + static_cast<std::ptrdiff_t>(end),
                                       [](char c) { return (c & 0xc0) != 0x80; });  // UTF-8 characters
    CHECK(columns <= 110);
  }
}

TEST_SUITE_END();
