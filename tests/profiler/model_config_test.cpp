#include "profiler/model_config.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "profiler/error.hpp"

using nlohmann::json;
using rope::ModelConfig;
using rope::parse_model_config;
using rope::spectral::RopeType;

namespace {

ModelConfig parse(const std::string& text) { return parse_model_config(text, "config.json"); }
ModelConfig parse(const json& config) { return parse(config.dump()); }

/// A small model of `type` with further keys.
json small(const std::string& type, const json& more = json::object(), int layers = 8) {
  json config = {{"model_type", type},
                 {"num_hidden_layers", layers},
                 {"hidden_size", 512},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 4},
                 {"head_dim", 64},
                 {"max_position_embeddings", 4096}};
  config.update(more);
  return config;
}

std::string error_of_text(const std::string& text) {
  try {
    parse(text);
  } catch (const rope::UserError& e) {
    return e.what();
  }
  return "no error";
}
std::string error_of(const json& config) { return error_of_text(config.dump()); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool warns(const ModelConfig& model, const std::string& part) {
  for (const std::string& sentence : model.warnings)
    if (contains(sentence, part)) return true;
  return false;
}

/// One letter a layer: s, c, f with a window; f full; n full without rotation; - no attention.
std::string layout(const ModelConfig& model) {
  std::string letters;
  for (const auto& layer : model.layers) {
    char letter = 'f';
    if (!layer.has_attention)
      letter = '-';
    else if (!layer.rotates)
      letter = 'n';
    else if (layer.window > 0)
      letter = layer.kind == "chunked_attention" ? 'c' : 's';
    letters += letter;
  }
  return letters;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("config: both spellings of the rotary parameters give the same layers") {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  json v5 = llama3;
  v5["rope_theta"] = 5e5;
  const ModelConfig a = parse(small("llama", {{"rope_theta", 5e5}, {"rope_scaling", llama3}}));
  const ModelConfig b = parse(small("llama", {{"rope_parameters", v5}}));
  for (const ModelConfig* model : {&a, &b}) {
    REQUIRE(model->layers.size() == 8);
    const auto& layer = model->layers[3];
    CHECK(layer.rope.type == RopeType::kLlama3);
    CHECK(layer.rope_type == "llama3");
    CHECK(layer.rope.theta == 5e5);
    CHECK(layer.rope.original_max_position == 8192);
    CHECK(layer.num_query_heads == 8);
    CHECK(layer.num_kv_heads == 4);
    CHECK(layer.logit_scale == 0.125);
    CHECK(layer.window == 0);
    CHECK(model->warnings.empty());
  }
}

TEST_CASE("config: Gemma 3 in both spellings") {
  const json both = {{"query_pre_attn_scalar", 168}, {"sliding_window", 512}, {"sliding_window_pattern", 6}};
  json v4 = small("gemma3_text", both, 12);
  v4["rope_theta"] = 1e6;
  v4["rope_local_base_freq"] = 1e4;
  v4["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  json v5 = small("gemma3_text", both, 12);
  v5["layer_types"] = json::array();
  for (int i = 0; i < 12; ++i)
    v5["layer_types"].push_back(i % 6 == 5 ? "full_attention" : "sliding_attention");
  v5["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  for (const json& config : {v4, v5}) {
    const ModelConfig model = parse(config);
    CHECK(layout(model) == "sssssfsssssf");
    CHECK(model.layers[0].window == 512);
    CHECK(model.layers[0].rope.theta == 1e4);
    CHECK(model.layers[0].rope.type == RopeType::kDefault);
    CHECK(model.layers[5].rope.theta == 1e6);
    CHECK(model.layers[5].rope.type == RopeType::kLinear);
    CHECK(model.layers[5].logit_scale == doctest::Approx(1 / std::sqrt(168.0)).epsilon(1e-15));
  }
}

TEST_CASE("config: every rope type needs its keys") {
  const auto scaled = [](const json& scaling) {
    return small("llama", {{"rope_theta", 1e4}, {"rope_scaling", scaling}});
  };
  struct Case {
    json scaling;
    const char* part;
  };
  const std::vector<Case> cases = {
      {{{"rope_type", "linear"}}, "rope_scaling.factor: missing"},
      {{{"type", "dynamic"}}, "rope_scaling.factor: missing"},
      {{{"rope_type", "longrope"}, {"factor", 4.0}}, "rope_scaling.short_factor: missing"},
      {{{"rope_type", "longrope"}, {"short_factor", {1.0, 2.0}}, {"long_factor", {1.0, 2.0}}},
       "rope_scaling.short_factor: expected 32 numbers"},
      {{{"rope_type", "llama3"}, {"factor", 8.0}}, "rope_scaling.low_freq_factor: missing"},
      {{{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}},
       "rope_scaling.high_freq_factor: expected a number above low_freq_factor"},
      {{{"rope_type", "linear"}, {"factor", 0}}, "rope_scaling.factor: expected a number above 0, found 0"},
      {{{"rope_type", "linear"}, {"factor", -2}}, "rope_scaling.factor: expected a number above 0, found -2"},
      {{{"rope_type", "linear"}, {"factor", "8"}}, "rope_scaling.factor: expected a number, found \"8\""},
      {{{"rope_type", "linear"}, {"factor", true}}, "rope_scaling.factor: expected a number"},
      {{{"rope_type", "fourier"}, {"factor", 2}}, "rope_scaling.rope_type: expected default"},
      {{{"type", "axial"}}, "axial rotary embeddings belong to vision encoders"},
      {{{"rope_type", 3}}, "rope_scaling.rope_type: expected text"},
      {{{"rope_type", "linear"}, {"factor", 0.1}}, "radians per token"},
  };
  for (const Case& c : cases) {
    const std::string error = error_of(scaled(c.scaling));
    INFO(c.part << " in: " << error);
    CHECK(contains(error, "config.json: "));
    CHECK(contains(error, c.part));
    CHECK_FALSE(contains(error, "\n"));
  }
  CHECK(
      contains(error_of_text(R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": NaN}})"),
               "rope_scaling.factor: expected a number, found \"NaN\""));
}

TEST_CASE("config: assumed values are reported") {
  const ModelConfig bare =
      parse(json{{"num_hidden_layers", 2}, {"hidden_size", 64}, {"num_attention_heads", 2}});
  CHECK(bare.layers[0].rope.theta == 1e4);
  CHECK(bare.layers[0].head_dim == 32);
  CHECK(bare.layers[0].num_kv_heads == 2);
  CHECK(warns(bare, "rope_theta is absent"));
  CHECK(warns(bare, "no model_type"));
  CHECK(warns(parse(small("not_yet_invented", {{"rope_theta", 1e4}})), "not_yet_invented is not known"));
}

TEST_SUITE_END();
