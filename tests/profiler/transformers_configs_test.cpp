#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "profiler/model_config.hpp"
#include "support/compare.hpp"

// Configurations of transformers' own classes with what its modules build from them (float32).

namespace {

using nlohmann::json;

const std::string kFolder = std::string(ROPE_SOURCE_DIR) + "/tests/data/reference/";

/// The files write Python's infinities as {"__float__": "Infinity"}.
void plain_floats(json& value) {
  if (value.is_object() && value.size() == 1 && value.contains("__float__")) {
    value = value["__float__"].get<std::string>();
    return;
  }
  for (auto& inner : value)
    if (inner.is_structured()) plain_floats(inner);
}

bool of_kind(const rope::LayerModel& layer, const std::string& kind) {
  if (!layer.has_attention || layer.rope.head_dim == 0) return false;
  return kind == "all" || layer.kind == kind;
}

void check_row(json row) {
  const std::string type = row["model_type"];
  CAPTURE(type);
  plain_floats(row["config"]);
  // Granite's hybrid has no attention layer at all by default; give it one, so that its grid is tested.
  if (type == "granitemoehybrid") row["config"]["layer_types"][0] = "attention";
  const rope::ModelConfig model = rope::parse_model_config(row["config"].dump(), type);
  for (const auto& [kind, expected] : row["layers"].items()) {
    CAPTURE(kind);
    const auto reference = expected["inv_freq"].get<std::vector<double>>();
    int seen = 0;
    for (const rope::LayerModel& layer : model.layers) {
      if (!of_kind(layer, kind)) continue;
      ++seen;
      const auto grid = rope::spectral::make_frequency_grid(layer.rope, 2);
      const auto result = rope::test::compare_relative(type + " " + kind, grid.omega, reference, 3e-6);
      CHECK_MESSAGE(result.ok(), result.text());
      CHECK(grid.attention_factor ==
            doctest::Approx(expected["attention_factor"].get<double>()).epsilon(3e-6));
    }
    CHECK(seen > 0);
  }
  if (row["softmax_scale"].is_null()) return;
  for (const rope::LayerModel& layer : model.layers)
    if (layer.has_attention)
      CHECK(layer.logit_scale == doctest::Approx(row["softmax_scale"].get<double>()).epsilon(3e-6));
}

char letter_of(const std::string& kind) {
  static const std::map<std::string, char> letters = {{"sliding_attention", 's'},
                                                      {"full_attention", 'f'},
                                                      {"linear_attention", 'l'},
                                                      {"chunked_attention", 'c'},
                                                      {"conv", 'v'},
                                                      {"indexed_attention", 'i'},
                                                      {"hybrid", 'h'},
                                                      {"reference_sliding_attention", 'r'},
                                                      {"compressed_sparse_attention", 'C'},
                                                      {"heavily_compressed_attention", 'H'}};
  const auto it = letters.find(kind);
  return it == letters.end() ? '?' : it->second;
}

/// A row of the shorter file: some frequencies, and the kinds and windows that follow from the config.
void check_short_row(const json& row, const json& config) {
  const std::string type = row["model_type"];
  CAPTURE(type);
  CAPTURE(config.size());
  const rope::ModelConfig model = rope::parse_model_config(config.dump(), type);
  for (const auto& [kind, expected] : row["layers"].items()) {
    CAPTURE(kind);
    int seen = 0;
    for (const rope::LayerModel& layer : model.layers) {
      if (!of_kind(layer, kind)) continue;
      ++seen;
      const auto grid = rope::spectral::make_frequency_grid(layer.rope, 2);
      REQUIRE(grid.omega.size() == expected["pairs"].get<std::size_t>());
      const auto turning =
          std::count_if(grid.omega.begin(), grid.omega.end(), [](double w) { return w > 0; });
      CHECK(turning == expected["turning"].get<std::ptrdiff_t>());
      for (const auto& [pair, omega] : expected["omega"].items())
        CHECK(grid.omega[std::stoul(pair)] == doctest::Approx(omega.get<double>()).epsilon(3e-6));
      CHECK(grid.attention_factor ==
            doctest::Approx(expected["attention_factor"].get<double>()).epsilon(3e-6));
    }
    CHECK(seen > 0);
  }
  std::string kinds;
  std::set<std::int64_t> windows;
  for (const rope::LayerModel& layer : model.layers) {
    kinds += letter_of(layer.kind);
    if (!layer.has_attention) continue;
    windows.insert(layer.window);
    if (!row["softmax_scale"].is_null())
      CHECK(layer.logit_scale == doctest::Approx(row["softmax_scale"].get<double>()).epsilon(3e-6));
  }
  if (row.contains("kinds")) CHECK(kinds == row["kinds"].get<std::string>());
  if (row.contains("windows")) CHECK(windows == row["windows"].get<std::set<std::int64_t>>());
}

void check_file(const std::string& name, std::size_t rows) {
  std::ifstream file(kFolder + name);
  REQUIRE(file);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    check_row(json::parse(line));
    ++count;
  }
  CHECK(count == rows);
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("transformers: frequencies, attention factor and softmax scale of 63 model types") {
  check_file("transformers_configs.jsonl", 63);
}

TEST_CASE("transformers: further model types, with and without the values their classes assume") {
  std::ifstream file(kFolder + "transformers_configs_more.jsonl");
  REQUIRE(file);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const json row = json::parse(line);
    check_short_row(row, row["config"]);
    check_short_row(row, {{"model_type", row["model_type"]}});
  }
  CHECK(count == 88);
}

TEST_SUITE_END();
