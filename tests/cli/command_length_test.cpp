#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "profiler/activation_set.hpp"
#include "profiler/example_reader.hpp"
#include "profiler/mean.hpp"
#include "reference/lengths.hpp"
#include "support/cache_writer.hpp"
#include "support/compare.hpp"
#include "support/reference_input.hpp"
#include "support/run_cli.hpp"
#include "support/schema.hpp"
#include "support/shared_folder.hpp"
#include "support/temp_dir.hpp"

namespace rope::test {
namespace {

using nlohmann::json;

const std::string kShipped = std::string(ROPE_SOURCE_DIR) + "/examples/data/smollm2_full.h5";
const std::string kSampled = std::string(ROPE_SOURCE_DIR) + "/examples/data/smollm2.h5";

json length_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"length", "--json"});
  const ProgramResult result = run_program(arguments);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const json document = json::parse(result.out);
  check_schema("length", document);
  return document;
}

/// Queries in no order, unequal numbers of examples in the two tasks, all keys.
CacheSpec full_cache(const std::vector<std::int64_t>& queries, std::int64_t keys, int layers = 2) {
  RandomCache sizes;
  sizes.num_layers = layers;
  sizes.key_slots = keys;
  sizes.query_slots = static_cast<std::int64_t>(queries.size());
  sizes.window = keys;
  sizes.type = ElementType::kFloat32;
  CacheSpec cache = random_cache(sizes);
  for (TaskSpec& task : cache.tasks) {
    task.header.full_coverage = true;
    task.query_position.clear();
    task.key_position.clear();
    for (double& x : task.query) x *= 2;
    for (std::int64_t e = 0; e < sizes.examples; ++e) {
      for (const std::int64_t q : queries) task.query_position.push_back(q < 0 ? q : q + e);
      for (std::int64_t k = 0; k < keys; ++k) task.key_position.push_back(k);
    }
  }
  cache.tasks[1] = select_examples(cache.tasks[1], {0, 2});
  return cache;
}

/// A gemma2-like config: layer 0 slides over 25 tokens, logits capped at 4.
const char* const kCappedConfig =
    R"({"model_type": "gemma2", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "hidden_size": 64, "rope_theta": 10000.0, "query_pre_attn_scalar": 16,
        "attn_logit_softcapping": 4.0, "sliding_window": 25,
        "layer_types": ["sliding_attention", "full_attention"]})";

double fold(const std::vector<std::vector<double>>& by_task) {
  Mean all;
  for (const std::vector<double>& task : by_task) {
    Mean mean;
    for (const double value : task) mean.add(value);
    all.add(mean.value());
  }
  return all.value();
}

/// One head of the result recomputed from the theory, in long double.
struct HeadCheck {
  struct Row {
    std::int64_t position;
    reference::LogitRow logits;
  };
  std::vector<std::vector<std::vector<Row>>> tasks;  // by task, example; rows by position
  double sink_logit = -INFINITY;

  HeadCheck(const ActivationSet& set, const ScoringOptions& options, int layer, int head) {
    for (const SetTask& task : set.tasks()) {
      tasks.emplace_back();
      for (const SetExample& example : task.examples) {
        const reference::HeadInput input = reference_input(set, example, layer, head, options);
        std::vector<Row> rows;
        for (std::size_t q = 0; q < input.query.rows.size(); ++q)
          if (input.query.position[q] >= 0)
            rows.push_back({input.query.position[q], reference::logit_row(input, q, input.window, false)});
        std::sort(rows.begin(), rows.end(),
                  [](const Row& a, const Row& b) { return a.position < b.position; });
        tasks.back().push_back(std::move(rows));
      }
    }
  }

  template <class Value>
  double over_rows(const Value& value) const {
    std::vector<std::vector<double>> means;
    for (const auto& examples : tasks) {
      means.emplace_back();
      for (const std::vector<Row>& rows : examples) {
        Mean mean;
        for (const Row& row : rows) mean.add(value(row.logits, row.position));
        means.back().push_back(mean.value());
      }
    }
    return fold(means);
  }

  /// Of the i-th query by position.
  template <class Value>
  double over_group(std::size_t group, const Value& value) const {
    std::vector<std::vector<double>> means;
    for (const auto& examples : tasks) {
      means.emplace_back();
      for (const std::vector<Row>& rows : examples)
        if (group < rows.size()) means.back().push_back(value(rows[group].logits));
    }
    return fold(means);
  }

  double weight(const reference::LogitRow& row, std::int64_t position, std::int64_t nearest,
                std::int64_t farthest) const {
    const auto weights = reference::softmax(row.logit, sink_logit);
    long double sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const std::int64_t distance = position - row.position[k];
      if (distance >= nearest && distance <= farthest) sum += weights[k];
    }
    return static_cast<double>(sum);
  }
};

reference::LogitRow drop_first(reference::LogitRow row) {
  if (!row.position.empty() && row.position[0] == 0) row.logit.erase(row.logit.begin());
  return row;
}

double log_length(const reference::LogitRow& row, double beta) {
  return row.logit.empty() ? NAN : static_cast<double>(reference::log_effective_length(row.logit, beta));
}

void check_heads(const json& document, const ActivationSet& set, const ScoringOptions& options,
                 const std::vector<double>& sinks) {
  std::vector<double> found, expected;
  const auto add = [&](const json& value, double wanted) {
    found.push_back(value.is_null() ? NAN : value.get<double>());
    expected.push_back(wanted);
  };
  std::map<std::pair<int, int>, HeadCheck> checks;
  REQUIRE(document["heads"].size() == set.heads().size());
  for (const json& row : document["heads"]) {
    const int layer = row["layer"], head = row["head"];
    HeadCheck& check = checks.try_emplace({layer, head}, set, options, layer, head).first->second;
    if (!sinks.empty()) check.sink_logit = sinks[static_cast<std::size_t>(4 * layer + head)];
    add(row["entropy"], check.over_rows([](const auto& logits, auto) { return log_length(logits, 1); }));
    add(row["sink"], check.over_rows([&](const auto& logits, auto position) {
      return logits.position[0] == 0 ? check.weight(logits, position, position, position) : 0.0;
    }));
    add(row["local_mass"],
        check.over_rows([&](const auto& logits, auto at) { return check.weight(logits, at, 0, 9); }));
    double best = -1;
    std::int64_t offset = -1;
    for (std::int64_t d = 0; d < 12; ++d) {
      const double slash = check.over_rows([&](const auto& logits, auto position) {
        return position < d ? NAN : check.weight(logits, position, d, d);
      });
      if (d == 1) add(row["previous_token"], slash);
      if (slash > best) {
        best = slash;
        offset = d;
      }
    }
    add(row["slash"], best);
    CHECK(row["slash_offset"] == offset);
    std::vector<double> x, y, x_rest, y_rest;
    for (std::size_t g = 0; g < row["groups"].get<std::size_t>(); ++g) {
      x.push_back(std::log(
          check.over_group(g, [](const auto& logits) { return static_cast<double>(logits.logit.size()); })));
      x_rest.push_back(std::log(check.over_group(
          g, [](const auto& logits) { return static_cast<double>(drop_first(logits).logit.size()); })));
      y.push_back(check.over_group(g, [](const auto& logits) { return log_length(logits, 2); }));
      y_rest.push_back(
          check.over_group(g, [](const auto& logits) { return log_length(drop_first(logits), 2); }));
    }
    add(row["shortest"], std::exp(x.front()));
    add(row["longest"], std::exp(x.back()));
    add(row["effective_length"], std::exp(y.back()));
    add(row["effective_length_without_first"], std::exp(y_rest.back()));
    if (*std::max_element(x.begin(), x.end()) - x[0] < 1e-9) {
      CHECK(row["slope"].is_null());
      CHECK(row["class"] == "none");
      continue;
    }
    for (const bool rest : {false, true}) {
      const std::string suffix = rest ? "_without_first" : "";
      const reference::LineFit line = rest ? reference::fit_line(x_rest, y_rest) : reference::fit_line(x, y);
      add(row["slope" + suffix], static_cast<double>(line.slope));
      add(row["slope_low" + suffix], static_cast<double>(line.low));
      add(row["slope_high" + suffix], static_cast<double>(line.high));
      add(row["intercept" + suffix], static_cast<double>(line.intercept));
      CHECK(row["class" + suffix] == (line.slope < 0.3L   ? "retrieval"
                                      : line.slope > 0.6L ? "aggregation"
                                                          : "mixed"));
    }
  }
  for (const json& row : document["lengths"]) {
    const HeadCheck& check = checks.at({row["layer"], row["head"]});
    const double beta = row["beta"] == "inf" ? INFINITY : std::stod(row["beta"].get<std::string>());
    const std::size_t group = row["group"];
    add(row["log_effective_length"],
        check.over_group(group, [&](const auto& logits) { return log_length(logits, beta); }));
    add(row["log_effective_length_without_first"],
        check.over_group(group, [&](const auto& logits) { return log_length(drop_first(logits), beta); }));
    add(row["length"],
        check.over_group(group, [](const auto& logits) { return static_cast<double>(logits.logit.size()); }));
  }
  CHECK_COMPARISON(compare_relative("heads and groups", found, expected, 1e-9, 0.1));
}

// Virtual lengths of every (task, head, order), with H of the options' split stopped too.
void check_virtual(const json& document, const ActivationSet& set, const ScoringOptions& options) {
  std::vector<double> found, expected;
  for (const json& row : document["virtual"]) {
    const double beta = row["beta"] == "inf" ? INFINITY : std::stod(row["beta"].get<std::string>());
    const auto task = std::find_if(set.tasks().begin(), set.tasks().end(),
                                   [&](const SetTask& t) { return t.name == row["task"]; });
    REQUIRE(task != set.tasks().end());
    Mean all, slow;
    std::int64_t pairs = 0;
    for (const SetExample& example : task->examples) {
      const reference::HeadInput input = reference_input(set, example, row["layer"], row["head"], options);
      Mean pair, slow_pair;
      for (std::size_t q = 0; q < input.query.rows.size(); ++q)
        for (std::size_t k = 0; k < input.key.rows.size(); ++k) {
          if (input.query.position[q] < 0 || input.key.position[k] < 0) continue;
          if (input.key.position[k] > input.query.position[q]) continue;
          pair.add(static_cast<double>(
              std::exp(reference::log_effective_length(window_logits(input, q, k, {}), beta))));
          slow_pair.add(static_cast<double>(
              std::exp(reference::log_effective_length(window_logits(input, q, k, input.high), beta))));
          ++pairs;
        }
      all.add(pair.value());
      slow.add(slow_pair.value());
    }
    CHECK(row["pairs"] == pairs);
    found.push_back(row["effective_length"]);
    found.push_back(row["effective_length_slow"]);
    expected.push_back(all.value());
    expected.push_back(slow.value());
  }
  CHECK(!found.empty());
  CHECK_COMPARISON(compare_relative("virtual", found, expected, 1e-10));
}

TEST_SUITE_BEGIN("cli");

TEST_CASE("length: attention rows, groups, growth and patterns equal the theory's sums") {
  TempDir folder;
  for (const bool capped : {false, true}) {
    CAPTURE(capped);
    const std::string path = folder / (capped ? "capped.h5" : "plain.h5");
    CacheSpec cache = full_cache({50, 12, -1, 25, 33}, 60);
    std::vector<double> sinks;
    if (capped) {
      cache.model.config = kCappedConfig;
    } else {
      for (int i = 0; i < 8; ++i) sinks.push_back(0.5 * i - 1);
      cache.model.sink_logit = sinks;
    }
    write_cache(path, cache);
    const ActivationSet set({path}, {});
    ScoringOptions options;
    check_heads(
        length_json({path, "--attention", "--no-virtual", "--local", "10", "--offsets", "12",
                     "--retrieval-below", "0.3", "--aggregation-above", "0.6", "--beta", "2,1,inf,0.5"}),
        set, options, sinks);
    options.window = 20;
    check_heads(length_json({path, "--attention", "--window", "20", "--local", "10", "--offsets", "12",
                             "--retrieval-below", "0.3", "--aggregation-above", "0.6"}),
                set, options, sinks);
    if (!capped) continue;
    options.window = 0;
    options.window_cap = false;
    check_heads(length_json({path, "--no-window-cap", "--local", "10", "--offsets", "12", "--retrieval-below",
                             "0.3", "--aggregation-above", "0.6"}),
                set, options, sinks);
  }
}

TEST_CASE("length: virtual lengths equal the theory's sums, under every split, window and softcap") {
  TempDir folder;
  RandomCache sizes;
  sizes.examples = 2;
  sizes.window = 70;
  sizes.type = ElementType::kFloat32;
  for (const bool capped : {false, true}) {
    CAPTURE(capped);
    const std::string path = folder / (capped ? "capped.h5" : "plain.h5");
    CacheSpec cache = random_cache(sizes);
    if (capped) cache.model.config = kCappedConfig;
    write_cache(path, cache);
    const ActivationSet set({path}, {});
    for (const std::string split : {"prefix:3", "prefix:0", "prefix:8"}) {
      ScoringOptions options;
      options.split = spectral::parse_split(split);
      check_virtual(length_json({path, "--split", split, "--beta", "1,2,inf,0.3"}), set, options);
    }
    ScoringOptions options;
    options.split = spectral::parse_split("prefix:3");
    options.window = 33;
    options.window_cap = false;
    check_virtual(length_json({path, "--split", "prefix:3", "--window", "33", "--no-window-cap"}), set,
                  options);
  }
}

TEST_CASE("length: pairs of several blocks are all in the mean") {
  TempDir folder;
  const std::string path = folder / "many.h5";
  write_cache(path, full_cache({295, 296, 290, 297}, 300, 1));
  const ActivationSet set({path}, {});
  ScoringOptions options;
  options.window = 20;
  const json document =
      length_json({path, "--window", "20", "--beta", "2", "--heads", "0.1", "--tasks", "beta"});
  CHECK(document["virtual"][0]["pairs"].get<int>() > 2 * 960);
  check_virtual(document, set, options);
}

TEST_CASE("length: --tasks and --heads choose; a head's values do not change with it") {
  const json all = length_json({kShipped, "--no-virtual"});
  const json some = length_json({kShipped, "--no-virtual", "--heads", "27.3,9.1"});
  REQUIRE(some["heads"].size() == 2);
  CHECK(some["heads"][0]["layer"] == 9);
  CHECK(some["heads"][0] == all["heads"][1]);
  const std::string task = all["tasks_with_all_keys"][0];
  const json one = length_json({kShipped, "--no-virtual", "--heads", "9.1", "--tasks", task});
  CHECK(one["tasks_with_all_keys"].size() == 1);
  CHECK(one["heads"][0]["rows"].get<int>() < some["heads"][0]["rows"].get<int>());
  CHECK(one["heads"][0]["entropy"] != some["heads"][0]["entropy"]);
}

TEST_CASE("length: export takes every table, null as an empty field") {
  TempDir folder;
  const std::string path = folder / "one.h5", result = folder / "length.json";
  write_cache(path, full_cache({30}, 40));
  const ProgramResult run = run_program({"length", path, "--json"});
  std::ofstream(result) << run.out;
  const json document = json::parse(run.out);
  for (const char* table : {"heads", "virtual", "lengths"}) {
    const ProgramResult csv = run_program({"export", result, "--table", table});
    CHECK_MESSAGE(csv.exit_code == 0, csv.err);
    CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 1 + static_cast<long>(document[table].size()));
    // Every member is a column.
    const std::string header = csv.out.substr(0, csv.out.find('\n'));
    CHECK(std::count(header.begin(), header.end(), ',') + 1 == static_cast<long>(document[table][0].size()));
    for (const auto& [name, value] : document[table][0].items())
      CHECK_MESSAGE(("," + header + ",").find("," + name + ",") != std::string::npos, name);
  }
  CHECK(run_program({"export", result, "--table", "heads"}).out.find(",,,,none,") != std::string::npos);
}

TEST_CASE("length: the same bytes for any number of threads, memory and file order") {
  TempDir folder;
  const CacheSpec cache = full_cache({50, 12, -1, 25, 33}, 60);
  std::vector<std::string> files;
  for (const int layer : {0, 1}) {
    CacheSpec part = cache;
    for (TaskSpec& task : part.tasks) task = select_layers(task, {layer});
    files.push_back(folder / ("layer" + std::to_string(layer) + ".h5"));
    write_cache(files.back(), part);
  }
  const auto run = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"length", "--json", "--digest", "none"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ProgramResult result = run_program(all);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  const std::string expected = run({files[0], files[1], "--threads", "1"});
  CHECK((run({files[1], files[0], "--threads", "3"}) == expected));
  CHECK((run({files[1], files[0], "--threads", "2", "--memory", "64M"}) == expected));
  json whole = json::parse(expected);
  const std::string one_file = folder / "whole.h5";
  write_cache(one_file, cache);
  json single = json::parse(run({one_file}));
  whole.erase("inputs");
  single.erase("inputs");
  whole.erase("warnings");  // of layers that a file does not say
  for (const auto& [name, value] : whole.items()) CHECK_MESSAGE(single[name] == value, name);
}

TEST_CASE("length: heads of known growth are told apart") {
  // Keys that are all alike: E_2 = L. One key per row that takes all: E_2 = 1. Queries that see one first
  // token: 1 at every length, and L without it.
  TempDir folder;
  const std::string path = folder / "known.h5";
  CacheSpec cache = full_cache({20, 40, 80, 160, 250}, 260, 1);
  cache.tasks.resize(1);
  cache.tasks[0] = select_examples(cache.tasks[0], {0});
  TaskSpec& task = cache.tasks[0];
  // Only pair 7 (lanes 7 and 15) is used: it turns by 0.0003 a token, so scores are flat.
  std::fill(task.query.begin(), task.query.end(), 0.0);
  std::fill(task.key.begin(), task.key.end(), 0.0);
  const auto key = [&](std::int64_t head, std::int64_t token) {
    return &task.key[static_cast<std::size_t>((head * 260 + token) * 16)];
  };
  for (std::int64_t token = 0; token < 260; ++token) {
    key(0, token)[7] = 1;
    key(1, token)[7] = token == 0 ? 1 : 0.01;
  }
  for (std::int64_t head = 0; head < 4; ++head)
    for (std::int64_t q = 0; q < 5; ++q)
      task.query[static_cast<std::size_t>((head * 5 + q) * 16 + 7)] = head < 2 ? 0.01 : 400;
  write_cache(path, cache);
  const json document = length_json({path});
  CHECK(document["heads"][0]["class"] == "aggregation");
  CHECK(document["heads"][0]["slope"].get<double>() == doctest::Approx(1).epsilon(1e-3));
  CHECK(document["heads"][0]["effective_length"].get<double>() == doctest::Approx(251).epsilon(1e-3));
  const json& sink = document["heads"][2];
  CHECK(sink["class"] == "retrieval");
  CHECK(sink["sink"].get<double>() > 0.999);
  CHECK(sink["effective_length"].get<double>() == doctest::Approx(1).epsilon(1e-6));
  CHECK(sink["class_without_first"] == "aggregation");
  CHECK(sink["slope_without_first"].get<double>() == doctest::Approx(1).epsilon(0.02));
  // The first token is 250 back from one row, which takes all there; 80 back is what three of five rows have.
  CHECK(sink["slash_offset"] == 80);
  CHECK(sink["slash"].get<double>() == doctest::Approx(1.0 / 3).epsilon(1e-3));
}

TEST_CASE("length: tables by head and by layer") {
  const ProgramResult heads = run_program({"length", kShipped, "--heads", "9.0,27.8"});
  CHECK(heads.exit_code == 0);
  for (const char* text : {"virtual effective length", "attention over all keys", "9.0", "27.8", "retrieval",
                           "E_inf of N", "b 95 %", "best slash", "local 64"})
    CHECK_MESSAGE(heads.out.find(text) != std::string::npos, text);
  const ProgramResult layers = run_program({"length", kShipped, "--by", "layer", "--no-virtual"});
  CHECK(layers.exit_code == 0);
  CHECK(layers.out.find("virtual effective length") == std::string::npos);
  CHECK(layers.out.find("r/m/a") != std::string::npos);
  for (const ProgramResult* result : {&heads, &layers}) {
    std::size_t line = 0;
    for (std::size_t at = 0; at < result->out.size(); at = line + 1) {
      line = result->out.find('\n', at);
      CHECK(line - at <= 100);
    }
  }
  const ProgramResult sampled = run_program({"length", kSampled, "--heads", "0.0", "--beta", "2"});
  CHECK(sampled.exit_code == 0);
  CHECK(sampled.out.find("attention") == std::string::npos);
  CHECK(sampled.err.find("no attention lengths") != std::string::npos);
}

TEST_CASE("length: one length only has no fit, two have no interval, and both are said") {
  TempDir folder;
  const std::string one = folder / "one.h5", two = folder / "two.h5";
  write_cache(one, full_cache({30}, 40));
  write_cache(two, full_cache({30, 10}, 40));
  const ProgramResult alone = run_program({"length", one, "--no-virtual"});
  CHECK(alone.exit_code == 0);
  CHECK(alone.err.find("no growth fit for 8 heads") != std::string::npos);
  const json document = length_json({one, "--no-virtual"});
  CHECK(document["heads"][0]["slope"].is_null());
  CHECK(document["heads"][0]["class"] == "none");
  CHECK(document["heads"][0]["effective_length"].is_number());
  const ProgramResult pair = run_program({"length", two, "--no-virtual"});
  CHECK(pair.err.find("no interval for 8 heads") != std::string::npos);
  const json both = length_json({two, "--no-virtual"});
  CHECK(both["heads"][0]["slope"].is_number());
  CHECK(both["heads"][0]["slope_low"].is_null());
}

TEST_CASE("length: tasks without all keys are left out and named, or an error with --attention") {
  TempDir folder;
  const std::string mixed = folder / "mixed.h5";
  CacheSpec cache = full_cache({30, 20, 35}, 40);
  CacheSpec sampled = random_cache();
  cache.tasks[0] = sampled.tasks[0];
  write_cache(mixed, cache);
  const ProgramResult result = run_program({"length", mixed});
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("attention lengths of 1 of 2 tasks") != std::string::npos);
  const json document = length_json({mixed});
  CHECK(document["tasks_with_all_keys"] == json({"beta"}));
  CHECK(document["tasks_with_some_keys"] == json({"alpha"}));
  CHECK(document["heads"][0]["rows"] == 6);
  check_failure(run_program({"length", mixed, "--attention"}), 3,
                {mixed, "/tasks/alpha: attribute key_coverage", "expected \"full\"", "found \"sampled\""});
  check_failure(run_program({"length", kSampled, "--attention"}), 3, {kSampled, "key_coverage"});
  check_failure(run_program({"length", kSampled, "--no-virtual"}), 3, {kSampled, "key_coverage"});
  CHECK(run_program({"length", mixed, "--attention", "--tasks", "beta"}).exit_code == 0);
}

TEST_CASE("length: zero and non-finite vectors are left out and counted") {
  TempDir folder;
  const std::string path = folder / "bad.h5";
  CacheSpec cache = full_cache({30, 10, 39}, 43, 1);
  for (TaskSpec& task : cache.tasks) std::fill_n(task.query.begin(), 16, 0.0);  // example 0, head 0, query 30
  cache.tasks[0].key[16 * 35 + 1] = NAN;  // example 0, key head 0: seen by query 39
  write_cache(path, cache);
  const json document = length_json({path});
  CHECK(document["heads"][0]["rows"] == 15 - 3);
  CHECK(document["heads"][0]["undefined_rows"] == 3);
  CHECK(document["heads"][1]["undefined_rows"] == 1);
  CHECK(document["heads"][3]["undefined_rows"] == 0);
  CHECK(run_program({"length", path}).err.find("4 of 60 attention rows left out") != std::string::npos);
  for (TaskSpec& task : cache.tasks) std::fill(task.query.begin(), task.query.end(), 0.0);
  write_cache(path, cache);
  CHECK(run_program({"length", path}).out.find("nan") == std::string::npos);  // no row at all
}

TEST_CASE("length: wrong usage and heads that do not turn") {
  check_failure(run_program({"length", kShipped, "--beta", "1,x"}), 2, {"--beta", "1,x"});
  check_failure(run_program({"length", kShipped, "--beta", "-1"}), 2, {"--beta", "0 to inf"});
  check_failure(run_program({"length", kShipped, "--beta", "2,2"}), 2, {"--beta", "twice"});
  check_failure(run_program({"length", kShipped, "--beta", ""}), 2, {"--beta"});
  check_failure(run_program({"length", kShipped, "--local", "0"}), 2, {"--local"});
  check_failure(run_program({"length", kShipped, "--retrieval-below", "0.8", "--aggregation-above", "0.2"}),
                2, {"--retrieval-below 0.8"});
  check_failure(run_program({"length", kShipped, "--heads", "9.40"}), 2, {"layer 9 head 40"});
  check_failure(run_program({"length", "/nowhere.h5"}), 3, {"/nowhere.h5"});
  TempDir folder;
  const std::string path = folder / "nope.h5";
  CacheSpec cache = full_cache({30, 10, 39}, 43);
  cache.model.config.reset();
  cache.model.inv_freq_shape = {2, 8};
  cache.model.inv_freq.assign(16, 0.0);
  cache.model.attention_scale = 0.25;
  for (std::size_t n = 0; n < 8; ++n) cache.model.inv_freq[n] = cache.omega[0][n];
  write_cache(path, cache);
  check_failure(run_program({"length", path, "--heads", "1.0"}), 2, {"layer 1 head 0 does not rotate"});
  CHECK(length_json({path})["heads"].size() == 4);
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
