#include "interventions/adapter.hpp"

#include <doctest/doctest.h>
#include <zip.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "interventions/expressible.hpp"
#include "interventions/plan_json.hpp"
#include "profiler/error.hpp"
#include "support/cache_writer.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

/// plan.json of a random cache; heads 1.2 and 3.0 of 5 layers of 4, h = 8; prompts of 200, 210, 220 tokens.
Plan plan_in(const TempDir& folder, const std::string& model_type = "llama",
             const std::string& layout = "half", const std::vector<std::string>& options = {}) {
  RandomCache sizes;
  sizes.num_layers = 5;
  sizes.tasks = {"alpha", "beta", "gamma"};
  CacheSpec cache = random_cache(sizes);
  auto config = nlohmann::json::parse(*cache.model.config);
  config["model_type"] = model_type;
  cache.model.config = config.dump();
  if (layout == "interleaved") cache.model.layout = spectral::PairLayout::kInterleaved;
  write_cache(folder / "c.h5", cache);
  REQUIRE(run_program({"profile", folder / "c.h5", "-o", folder / "p.h5", "--force"}).exit_code == 0);
  std::vector<std::string> command{"plan",    folder / "p.h5", "-o",      folder / "plan.json",
                                   "--force", "--heads",       "1.2,3.0", "--direction",
                                   "semantic"};
  command.insert(command.end(), options.begin(), options.end());
  REQUIRE(run_program(command).exit_code == 0);
  return read_plan_json(folder / "plan.json");
}

struct Npy {
  std::string header, data;
};

/// Entries of a zip as numpy would see them.
std::map<std::string, Npy> read_npz(const std::string& path) {
  std::map<std::string, Npy> entries;
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, nullptr);
  REQUIRE(archive != nullptr);
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t facts;
    REQUIRE(zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &facts) == 0);
    CHECK(facts.comp_method == ZIP_CM_STORE);
    std::string bytes(facts.size, '\0');
    zip_file_t* file = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
    REQUIRE(zip_fread(file, bytes.data(), bytes.size()) == static_cast<zip_int64_t>(bytes.size()));
    zip_fclose(file);
    REQUIRE(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
    const auto size = static_cast<std::size_t>(static_cast<unsigned char>(bytes[8])) |
                      static_cast<std::size_t>(static_cast<unsigned char>(bytes[9])) << 8;
    CHECK((10 + size) % 64 == 0);
    entries[facts.name] = {bytes.substr(10, size), bytes.substr(10 + size)};
  }
  zip_discard(archive);
  return entries;
}

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("adapter tables: the chosen heads and pairs change, all else is the identity") {
  TempDir folder;
  const Plan plan = plan_in(folder);
  for (const char* id : {"NR", "0.5", "0"}) {
    const AdapterChoice choice = choose_candidate(plan, "beta", id, 0);
    const auto tensors = adapter_tensors(choice, 210);
    REQUIRE(tensors.size() == 4);
    CHECK(tensors[0].name == "layer.1.query_scale");
    CHECK(tensors[1].name == "layer.1.frequency");
    CHECK(tensors[2].name == "layer.3.query_scale");
    const auto& pairs = plan.tasks[0].prompts[1].layers[0].pairs;
    REQUIRE(pairs.size() > 1);
    REQUIRE(pairs.size() < 8);
    for (int t = 0; t < 4; t += 2) {
      CHECK(tensors[static_cast<std::size_t>(t)].shape == std::vector<std::int64_t>{4, 8});
      for (int head = 0; head < 4; ++head)
        for (int n = 0; n < 8; ++n) {
          const bool changed = head == (t == 0 ? 2 : 0) && std::binary_search(pairs.begin(), pairs.end(), n);
          const auto at = static_cast<std::size_t>(8 * head + n);
          const bool freeze = choice.candidate.operation == Operation::kFreeze;
          CHECK(tensors[static_cast<std::size_t>(t)].values[at] ==
                (changed && !freeze ? static_cast<float>(choice.candidate.alpha) : 1.0F));
          const auto omega = static_cast<float>(std::pow(1e4, -n / 8.0));
          CHECK(tensors[static_cast<std::size_t>(t) + 1].values[at] ==
                doctest::Approx(changed && freeze ? 0.0F : omega).epsilon(1e-6));
        }
    }
  }
}

TEST_CASE("prompt lengths that the plan does not list follow from its frequencies") {
  TempDir folder;
  Plan plan = plan_in(folder);
  const AdapterChoice choice = choose_candidate(plan, "alpha", "NR", 5);
  const PlanPrompt listed = adapter_prompt(choice, 210);
  CHECK(listed == plan.tasks[static_cast<std::size_t>(choice.task - plan.tasks.data())].prompts[1]);
  Plan without = plan;
  for (PlanTask& task : without.tasks) task.prompts.clear();
  CHECK(adapter_prompt(choose_candidate(without, "alpha", "NR", 5), 210) == listed);
  CHECK(adapter_prompt(choice, 1 << 20).layers[0].pairs.size() == 8);
  CHECK(adapter_prompt(choice, 1).layers[0].pairs.empty());
  // Frequencies of single lengths: others are refused.
  for (PlanFrequencies& entry : without.model.frequencies) entry.grids[0].window = 210;
  CHECK(adapter_prompt(choose_candidate(without, "alpha", "NR", 5), 210) == listed);
  CHECK_THROWS_AS(adapter_prompt(choose_candidate(without, "alpha", "NR", 5), 211), UserError);
}

TEST_CASE("apply writes json by its schema, and safetensors and npz with the same tables") {
  TempDir folder;
  const Plan plan = plan_in(folder);
  const std::string plan_file = folder / "plan.json";
  const auto apply = [&](const std::string& out, std::vector<std::string> options) {
    std::vector<std::string> command{"apply", plan_file, "--task", "beta", "-o", folder / out, "--force"};
    command.insert(command.end(), options.begin(), options.end());
    return run_program(command);
  };
  CHECK(apply("a.json", {"--candidate", "NR"}).exit_code == 0);
  const auto json = nlohmann::json::parse(read_file(folder / "a.json"));
  check_schema("adapter", json);
  CHECK(json["prompts"].size() == 3);
  CHECK(json["prompt_length"].is_null());
  CHECK(json["candidate"]["alpha"].is_null());
  CHECK(json["prompts"][0]["layers"][0]["inv_freq"][0] == 0);
  // The frequencies are those that the candidate leaves, though the task has a freeze among its others.
  CHECK(apply("b.json", {"--candidate", "0.5", "--prompt-length", "5000"}).exit_code == 0);
  const auto one = nlohmann::json::parse(read_file(folder / "b.json"));
  check_schema("adapter", one);
  CHECK(one["prompts"].size() == 1);
  CHECK(one["prompt_length"] == 5000);
  CHECK(one["prompts"][0]["layers"][0]["inv_freq"][0] == 1);

  CHECK(apply("a.npz", {"--candidate", "0.5", "--prompt-length", "210"}).exit_code == 0);
  CHECK(apply("a.safetensors", {"--candidate", "0.5", "--prompt-length", "210"}).exit_code == 0);
  const std::string bytes = read_file(folder / "a.npz");
  CHECK(apply("a.npz", {"--candidate", "0.5", "--prompt-length", "210"}).exit_code == 0);
  CHECK(read_file(folder / "a.npz") == bytes);
  const auto tensors = adapter_tensors(choose_candidate(plan, "beta", "0.5", 5), 210);
  const auto npz = read_npz(folder / "a.npz");
  CHECK(npz.size() == tensors.size() + 1);
  const std::string safe = read_file(folder / "a.safetensors");
  std::uint64_t size = 0;
  std::memcpy(&size, safe.data(), 8);
  REQUIRE(8 + size < safe.size());
  CHECK(size % 8 == 0);
  const auto header = nlohmann::json::parse(safe.substr(8, size));
  CHECK(header["__metadata__"]["prompt_length"] == "210");
  CHECK(header["__metadata__"]["task"] == "beta");
  CHECK(header["__metadata__"]["candidate"] == "0.5");
  std::size_t end = 0;
  for (const NamedTensor& tensor : tensors) {
    const Npy& entry = npz.at(tensor.name + ".npy");
    CHECK(entry.header.find("'<f4'") != std::string::npos);
    CHECK(entry.header.find("(4,8,)") != std::string::npos);
    CHECK(floats(entry.data) == tensor.values);
    const auto& facts = header[tensor.name];
    CHECK(facts["dtype"] == "F32");
    CHECK(facts["shape"] == nlohmann::json(tensor.shape));
    const std::size_t from = facts["data_offsets"][0], to = facts["data_offsets"][1];
    CHECK(from == end);
    end = to;
    CHECK(floats(safe.substr(8 + size + from, to - from)) == tensor.values);
  }
  CHECK(8 + size + end == safe.size());
  CHECK(npz.at("metadata.npy").header.find("'<U") != std::string::npos);
}

TEST_CASE("apply: usage errors, and lengths whose pairs differ") {
  TempDir folder;
  plan_in(folder, "llama", "half", {"--split", "periods:3.3"});  // 200 and 220 tokens: other pairs
  const std::string plan = folder / "plan.json", out = folder / "x.npz";
  check_failure(run_program({"apply", plan, "--task", "beta", "--candidate", "NR", "-o", out}), 2,
                {"200 to 220 tokens"});
  check_failure(run_program({"apply", plan, "--task", "delta", "--candidate", "NR", "-o", out}), 2,
                {
                    "delta",
                });
  check_failure(run_program({"apply", plan, "--task", "beta", "--candidate", "7", "-o", out}), 2,
                {"candidate 7"});
  check_failure(
      run_program({"apply", plan, "--task", "beta", "--candidate", "NR", "-o", folder / "x.json", "--fold"}),
      2, {"--fold"});
  check_failure(run_program({"apply", plan, "--task", "beta", "--candidate", "NR", "-o", plan, "--force"}), 2,
                {"plan.json"});
  check_failure(run_program({"apply", folder / "p.h5", "--task", "beta", "--candidate", "NR", "-o", out}), 3,
                {"p.h5", "JSON"});
}

TEST_CASE("fold: multiplied rows of the projection give the rescaled scores, in both layouts") {
  TempDir folder;
  for (const char* layout : {"half", "interleaved"}) {
    const Plan plan = plan_in(folder, "llama", layout);
    const AdapterChoice choice = choose_candidate(plan, "beta", "0.5", 5);
    const auto rows = fold_tensors(choice, 210);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].name == "layer.1.query_rows");
    CHECK(rows[0].shape == std::vector<std::int64_t>{64});
    // Score of head 2 of layer 1 with the query's rows multiplied, against S + (alpha - 1) S_H of theory §7.
    std::vector<double> q(16), k(16);
    for (std::size_t i = 0; i < 16; ++i) {
      q[i] = std::sin(3.0 * static_cast<double>(i) + 1);
      k[i] = std::cos(5.0 * static_cast<double>(i));
    }
    const auto lane = [&](std::size_t n, bool second) {
      return std::string(layout) == "half" ? n + (second ? 8 : 0) : 2 * n + (second ? 1 : 0);
    };
    const std::vector<int> pairs = adapter_prompt(choice, 210).layers[0].pairs;
    for (const double m : {0.0, 1.0, 17.0}) {
      double folded = 0, expected = 0;
      for (std::size_t n = 0; n < 8; ++n) {
        const auto turned = std::polar(1.0, m * std::pow(1e4, -static_cast<double>(n) / 8));
        const std::complex<double> qn(q[lane(n, false)], q[lane(n, true)]),
            kn(k[lane(n, false)], k[lane(n, true)]);
        const std::complex<double> scaled(q[lane(n, false)] * rows[0].values[32 + lane(n, false)],
                                          q[lane(n, true)] * rows[0].values[32 + lane(n, true)]);
        folded += (scaled * std::conj(kn) * turned).real();
        const bool high = std::binary_search(pairs.begin(), pairs.end(), static_cast<int>(n));
        expected += (high ? 0.5 : 1.0) * (qn * std::conj(kn) * turned).real();
      }
      CHECK(folded == doctest::Approx(expected).epsilon(1e-12));
    }
    for (std::size_t i = 0; i < 64; ++i)
      if (i < 32 || i >= 48) CHECK(rows[0].values[i] == 1.0F);
  }
}

TEST_CASE("what can hold a candidate") {
  TempDir folder;
  const auto verdict = [&](const char* model_type, const char* candidate, const char* target) {
    const Plan plan = plan_in(folder, model_type);
    for (const Expressibility& row : expressible(choose_candidate(plan, "beta", candidate, 5), 210))
      if (row.target == target) return row.verdict;
    FAIL("no such target");
    return Verdict::kExact;
  };
  CHECK(verdict("llama", "NR", "adapter") == Verdict::kExact);
  CHECK(verdict("llama", "0.5", "weights") == Verdict::kExact);
  CHECK(verdict("llama", "NR", "weights") == Verdict::kNotExpressible);
  CHECK(verdict("qwen3", "0.5", "weights") == Verdict::kNotExpressible);
  CHECK(verdict("olmo2", "0.5", "weights") == Verdict::kExact);
  CHECK(verdict("llama", "0.5", "llama.cpp rope factors") == Verdict::kNotExpressible);
  CHECK(verdict("llama", "NR", "config rope_scaling") == Verdict::kNotExpressible);
  CHECK(fold_target("olmo2") == "q_norm");
  CHECK(fold_target("llama") == "q_proj");
  CHECK(query_norm("no_such_model") == QueryNorm::kUnknown);
  // Weights hold one mask: approximate for lengths that have another.
  const Plan plan = plan_in(folder, "llama", "half", {"--split", "periods:3.3"});
  for (const Expressibility& row : expressible(choose_candidate(plan, "beta", "0.5", 5), 210))
    if (row.target == "weights" || row.target == "adapter") {
      CHECK(row.verdict == (row.target == "weights" ? Verdict::kApproximate : Verdict::kExact));
      CHECK(row.reason.find("at 210 tokens alone") != std::string::npos);
    }
  CHECK(choose_candidate(plan, "beta", "0.50", 5).candidate.alpha == 0.5);
  const AdapterChoice freeze = choose_candidate(plan, "beta", "NR", 5);
  CHECK_THROWS_AS(fold_tensors(freeze, 210), UserError);
  const ProgramResult refused =
      run_program({"apply", folder / "plan.json", "--task", "beta", "--candidate", "NR", "--fold",
                   "--prompt-length", "210", "-o", folder / "x.npz"});
  check_failure(refused, 1, {"--fold", "rotation"});
  CHECK(!std::ifstream(folder / "x.npz").good());
}

TEST_SUITE_END();
