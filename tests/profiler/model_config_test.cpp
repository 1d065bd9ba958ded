#include "profiler/model_config.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

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
  CHECK(contains(
      error_of_text(R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": NaN}})"),
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

TEST_CASE("config: the order in which theta, width and type are looked for") {
  // rope_scaling wins over rope_parameters, an entry over the top of the config.
  const json both = {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
                     {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 7e5}}},
                     {"rope_theta", 5e5}};
  CHECK(*parse(small("llama", both)).layers[0].rope.factor == 2.0);
  CHECK(parse(small("llama", both)).layers[0].rope.theta == 5e5);
  const json empty = {
      {"rope_scaling", json::object()}, {"rope_parameters", {{"rope_theta", 7e5}}}, {"rope_theta", 5e5}};
  CHECK(parse(small("llama", empty)).layers[0].rope.theta == 7e5);
  // type and rope_type.
  const auto typed = [](const json& scaling) {
    return parse(small("llama", {{"rope_scaling", scaling}, {"rope_theta", 1e4}}));
  };
  CHECK(typed({{"type", "linear"}, {"factor", 2.0}}).layers[0].rope.type == RopeType::kLinear);
  const ModelConfig differing = typed({{"type", "dynamic"}, {"rope_type", "linear"}, {"factor", 2.0}});
  CHECK(differing.layers[0].rope.type == RopeType::kLinear);
  CHECK(warns(differing, "rope_type is used"));
  CHECK(typed({{"type", "su"},
               {"short_factor", std::vector<double>(32, 1.0)},
               {"long_factor", std::vector<double>(32, 2.0)},
               {"original_max_position_embeddings", 2048}})
            .layers[0]
            .rope.type == RopeType::kLongrope);
  CHECK(typed({{"type", "deepseek_yarn"}, {"factor", 2.0}}).layers[0].rope.type == RopeType::kYarn);
  const ModelConfig mrope = typed({{"type", "mrope"}, {"mrope_section", {8, 12, 12}}});
  CHECK(mrope.layers[0].rope.type == RopeType::kDefault);
  CHECK(warns(mrope, "text positions"));
  // Widths.
  CHECK(
      parse(small("llama", {{"partial_rotary_factor", 0.29}, {"head_dim", 100}})).layers[0].rope.rotary_dim ==
      28);
  CHECK(parse(small("gpt_neox", {{"rotary_pct", 0.5}, {"rotary_emb_base", 2e4}})).layers[0].rope.rotary_dim ==
        32);
  CHECK(parse(small("gpt_neox", {{"rotary_pct", 0.5}, {"rotary_emb_base", 2e4}})).layers[0].rope.theta ==
        2e4);
  CHECK(parse(small("gptj", {{"rotary_dim", 24}})).layers[0].rope.rotary_dim == 24);
  CHECK(parse(small("minimax_m2", {{"rotary_dim", 24}})).layers[0].rope.rotary_dim == 24);
  for (const char* type : {"minimax", "minimax_m3_vl_text"}) {
    const ModelConfig ignored = parse(small(type, {{"rotary_dim", 24}}));
    CHECK(ignored.layers[0].rope.rotary_dim == 64);
    CHECK(warns(ignored, "rotary_dim is not used"));
  }
  CHECK(parse(small("glm")).layers[0].rope.rotary_dim == 32);  // also where the key is absent
  CHECK(parse(small("llama", {{"head_dim", nullptr}})).layers[0].head_dim == 64);
  CHECK(contains(error_of(small("llama", {{"partial_rotary_factor", 1.5}})),
                 "partial_rotary_factor: expected"));
  CHECK(contains(error_of(small("llama", {{"head_dim", 63}, {"rope_theta", 1e4}})), "63 lanes in pairs"));
}

TEST_CASE("config: original_max_position_embeddings") {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};
  const json flat = {{"rope_theta", 1e6}, {"rope_scaling", yarn}, {"original_max_position_embeddings", 2048}};
  CHECK(parse(small("qwen2", flat)).layers[0].rope.original_max_position == 2048);
  const json nested = {{"layer_types", std::vector<std::string>(8, "full_attention")},
                       {"rope_parameters", {{"full_attention", yarn}}},
                       {"original_max_position_embeddings", 2048}};
  CHECK(parse(small("qwen2", nested)).layers[0].rope.original_max_position == 1024);
  const ModelConfig filled =
      parse(small("qwen2", {{"rope_theta", 1e6}, {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}}));
  CHECK(filled.layers[0].rope.original_max_position == 4096);
  CHECK(warns(filled, "original_max_position_embeddings is absent"));
  // truncate inside a layer kind is not read.
  json untruncated = nested;
  untruncated["rope_parameters"]["full_attention"]["truncate"] = false;
  CHECK(parse(small("qwen2", untruncated)).layers[0].rope.truncate);
  CHECK(warns(parse(small("qwen2", untruncated)), "truncate"));
  json outer = flat;
  outer["rope_scaling"]["truncate"] = false;
  CHECK_FALSE(parse(small("qwen2", outer)).layers[0].rope.truncate);
  CHECK(warns(
      parse(small("qwen2", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}, {"faktor", 3}}}})),
      "faktor"));
}

TEST_CASE("config: which layers slide") {
  const auto slide = [](const json& more, const char* type = "mistral") {
    return layout(parse(small(type, more, 6)));
  };
  CHECK(slide({{"sliding_window", 100}}) == "ssssss");
  CHECK(slide({{"sliding_window", nullptr}}) == "ffffff");
  CHECK(slide({{"sliding_window", 0}}) == "ffffff");
  CHECK(slide({{"sliding_window", 100}, {"use_sliding_window", false}}, "qwen2") == "ffffff");
  CHECK(slide({{"sliding_window", 100}, {"use_sliding_window", true}, {"max_window_layers", 4}}, "qwen2") ==
        "ffffss");
  CHECK(slide({{"sliding_window", 100}}, "qwen2") == "ffffff");  // its class has use_sliding_window false
  CHECK(slide({{"sliding_window", 100}}, "gemma2") == "sfsfsf");
  CHECK(slide({{"sliding_window", 100}, {"sliding_window_pattern", 3}}, "gemma3_text") == "ssfssf");
  CHECK(slide({{"sliding_window", 100}}, "gpt_oss") == "sfsfsf");
  CHECK(slide({{"sliding_window", 100}}, "made_up") == "ssssss");
  CHECK(slide({{"max_position_embeddings", 100}}, "made_up") == "ffffff");
  CHECK(slide({{"local_attention", 128}}, "modernbert-decoder") == "fssfss");
  CHECK(parse(small("modernbert-decoder", {{"local_attention", 128}})).layers[1].window == 64);
  // layer_types decides, whatever else is said.
  const json types = {"full_attention", "sliding_attention", "full_attention",
                      "full_attention", "sliding_attention", "full_attention"};
  CHECK(slide({{"sliding_window", 100}, {"use_sliding_window", false}, {"layer_types", types}}, "qwen2") ==
        "fsffsf");
  CHECK(contains(error_of(small("qwen2", {{"layer_types", types}}, 7)), "layer_types: expected 7 entries"));
  CHECK(warns(parse(small("made_up", {{"layer_types", types}}, 6)), "no width"));
}

TEST_CASE("config: layers that do not rotate, or have no attention") {
  CHECK(layout(parse(small("smollm3"))) == "fffnfffn");
  CHECK(layout(parse(small("smollm3", {{"no_rope_layers", {1, 0, 1, 1, 1, 1, 1, 1}}}))) == "fnffffff");
  CHECK(contains(error_of(small("smollm3", {{"no_rope_layers", {1, 0}}})),
                 "no_rope_layers: expected 8 entries"));
  CHECK(layout(parse(small("cohere2", {{"sliding_window", 64}}))) == "sssnsssn");
  CHECK(layout(parse(small("exaone4", {{"sliding_window", 64}}))) == "sssnsssn");
  CHECK(layout(parse(small("exaone4", {{"sliding_window", 64}, {"sliding_window_pattern", "LLG"}}))) ==
        "ssnssnss");
  CHECK(layout(parse(small("exaone4", {{"sliding_window", nullptr}}))) == "ffffffff");
  CHECK(layout(parse(small("qwen3_next"))) == "---f---f");
  CHECK(layout(parse(small("lfm2", {{"full_attn_idxs", {2, 5}}}))) == "--f--f--");
  CHECK(layout(parse(small("jamba", {{"attn_layer_period", 4}, {"attn_layer_offset", 1}}))) == "-n---n--");
  CHECK(layout(parse(small("nemotron_h", {{"hybrid_override_pattern", "M-M*M-M*"}}))) == "---n---n");
  CHECK(layout(parse(small("gpt2"))) == "nnnnnnnn");
  CHECK(layout(parse(small("falcon", {{"alibi", true}}))) == "nnnnnnnn");
  CHECK(layout(parse(small("granite_swa", {{"layer_rope_theta", {1e4, 0, 1e4, 1e4, 2e4, 1e4, 1e4, 0}},
                                           {"sliding_window", 64}}))) == "fnssfssn");
  // A null entry of a layer kind.
  const json types = {"full_attention", "sliding_attention", "sliding_attention", "full_attention"};
  const json nulled = {
      {"layer_types", types},
      {"sliding_window", 64},
      {"rope_parameters", {{"full_attention", nullptr}, {"sliding_attention", {{"rope_theta", 1e4}}}}}};
  const ModelConfig model = parse(small("made_up", nulled, 4));
  CHECK(layout(model) == "nssn");
  CHECK(model.layers[0].rope_type == "none");
  json missing = nulled;
  missing["rope_parameters"].erase("full_attention");
  CHECK(contains(error_of(small("made_up", missing, 4)),
                 "rope_parameters.full_attention: this layer kind has no entry"));
}

TEST_CASE("config: Llama 4 rotates in chunks, scales its other queries and normalises after the rotation") {
  const ModelConfig model =
      parse({{"model_type", "llama4"},
             {"text_config", small("llama4_text", {{"attention_chunk_size", 64}, {"rms_norm_eps", 1e-5}})}});
  CHECK(model.model_type == "llama4_text");
  CHECK(layout(model) == "cccncccn");
  CHECK(model.layers[0].window == 64);
  CHECK(*model.layers[0].norm_after_epsilon == 1e-5);
  CHECK_FALSE(model.layers[3].norm_after_epsilon);
  CHECK_FALSE(model.layers[0].query_temperature);
  REQUIRE(model.layers[3].query_temperature);
  const auto& temperature = *model.layers[3].query_temperature;
  CHECK(temperature.at(8190) == 1.0);
  CHECK(temperature.at(8191) == doctest::Approx(1.06931471806).epsilon(1e-11));
  CHECK(temperature.at(131071) == doctest::Approx(1.28332133441).epsilon(1e-11));
  CHECK_FALSE(parse(small("llama4_text", {{"use_qk_norm", false}})).layers[0].norm_after_epsilon);
  CHECK_FALSE(parse(small("llama4_text", {{"attn_temperature_tuning", false}})).layers[3].query_temperature);
}

TEST_CASE("config: Ministral 3 scales queries on every layer") {
  const ModelConfig model = parse(small("ministral3"));
  REQUIRE(model.layers[5].query_temperature);
  CHECK(model.layers[5].query_temperature->at(16383) == 1.0);
  CHECK(model.layers[5].query_temperature->at(16384) == doctest::Approx(1.06931471806).epsilon(1e-11));
  CHECK(model.layers[5].query_temperature->at(262143) == doctest::Approx(1.27725887222).epsilon(1e-11));
  CHECK(model.layers[5].logit_scale == 0.125);  // mscale_all_dim acts on latent attention only
}

TEST_CASE("config: latent attention puts its gain on the softmax scale") {
  const auto deepseek = [](double factor, double all_dim) {
    json config = small(
        "deepseek_v3",
        {{"kv_lora_rank", 512}, {"qk_rope_head_dim", 64}, {"qk_nope_head_dim", 128}, {"rope_theta", 1e4}});
    config.erase("head_dim");
    if (factor > 0)
      config["rope_scaling"] = {{"type", "yarn"},
                                {"factor", factor},
                                {"mscale", all_dim},
                                {"mscale_all_dim", all_dim},
                                {"original_max_position_embeddings", 4096}};
    return parse(config).layers[0];
  };
  CHECK(deepseek(40, 1).logit_scale == doctest::Approx(0.135233778861).epsilon(1e-11));
  CHECK(deepseek(40, 0.707).logit_scale == doctest::Approx(0.114721386793).epsilon(1e-11));
  CHECK(deepseek(0, 0).logit_scale == doctest::Approx(0.0721687836487).epsilon(1e-11));
  const auto layer = deepseek(40, 1);
  CHECK(layer.head_dim == 192);
  CHECK(layer.rope.rotary_dim == 64);
  CHECK(layer.num_kv_heads == 8);
}

TEST_CASE("config: logit scale and softcap of the families") {
  CHECK(parse(small("granite", {{"attention_multiplier", 0.0078125}})).layers[0].logit_scale == 0.0078125);
  const ModelConfig gemma2 =
      parse(small("gemma2", {{"query_pre_attn_scalar", 144}, {"attn_logit_softcapping", 50.0}}));
  CHECK(gemma2.layers[0].logit_scale == doctest::Approx(1.0 / 12.0).epsilon(1e-15));
  CHECK(gemma2.layers[0].softcap == 50.0);
  CHECK(parse(small("gemma3_text", {{"attn_logit_softcapping", nullptr}})).layers[0].softcap == 0.0);
  CHECK(parse(small("command", {{"logit_scale", 0.0625}, {"rope_theta", 1e4}})).layers[0].logit_scale ==
        0.125);
  CHECK(contains(error_of(small("granite", {{"attention_multiplier", 0}})),
                 "attention_multiplier: expected a number above 0"));
}

TEST_CASE("config: Gemma 4 has wider global heads") {
  const json more = {{"global_head_dim", 128},
                     {"attention_k_eq_v", true},
                     {"num_global_key_value_heads", 2},
                     {"sliding_window", 64}};
  const ModelConfig model = parse(small("gemma4_text", more, 12));
  CHECK(layout(model) == "sssssfsssssf");
  CHECK(model.layers[0].head_dim == 64);
  CHECK(model.layers[0].num_kv_heads == 4);
  CHECK(model.layers[5].head_dim == 128);
  CHECK(model.layers[5].num_kv_heads == 2);
  CHECK(model.layers[5].rope.type == RopeType::kProportional);
  CHECK(model.layers[5].rope.partial_factor == 0.25);
  CHECK(model.layers[5].rope.theta == 1e6);
  CHECK(model.layers[0].rope.theta == 1e4);
  CHECK(model.layers[5].logit_scale == 1.0);
  CHECK(layout(parse(small("gemma4_text", more, 8))) == "sssssfsf");  // the last layer is global
}

TEST_CASE("config: Step-3.5 and MiMo have layers of their own shape") {
  json types, thetas, partials;
  for (int i = 0; i < 8; ++i) {
    types.push_back(i % 4 == 0 ? "full_attention" : "sliding_attention");
    thetas.push_back(i % 4 == 0 ? 5e6 : 1e4);
    partials.push_back(i % 4 == 0 ? 0.5 : 1.0);
  }
  json step = small("step3p5", {{"layer_types", types},
                                {"rope_theta", thetas},
                                {"partial_rotary_factors", partials},
                                {"sliding_window", 64},
                                {"yarn_only_types", {"full_attention"}},
                                {"rope_scaling",
                                 {{"rope_type", "llama3"},
                                  {"factor", 2.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 32.0},
                                  {"original_max_position_embeddings", 1024}}},
                                {"attention_other_setting",
                                 {{"attention_type", "sliding_attention"},
                                  {"num_attention_heads", 12},
                                  {"num_attention_groups", 3},
                                  {"head_dim", 32}}}});
  const ModelConfig model = parse(step);
  CHECK(layout(model) == "fsssfsss");
  CHECK(model.layers[0].rope.theta == 5e6);
  CHECK(model.layers[0].rope.rotary_dim == 32);
  CHECK(model.layers[0].rope.type == RopeType::kLlama3);
  CHECK(model.layers[1].rope.theta == 1e4);
  CHECK(model.layers[1].rope.type == RopeType::kDefault);
  CHECK(model.layers[1].num_query_heads == 12);
  CHECK(model.layers[1].num_kv_heads == 3);
  CHECK(model.layers[1].head_dim == 32);
  step["rope_theta"] = {1e4, 1e4};
  CHECK(contains(error_of(step), "rope_theta: expected 8 entries"));

  const ModelConfig mimo = parse(small("mimo_v2_flash", {{"hybrid_layer_pattern", {0, 1, 1, 1, 0, 1, 1, 0}},
                                                         {"rope_theta", 5e6},
                                                         {"swa_rope_theta", 2e4},
                                                         {"swa_head_dim", 32},
                                                         {"swa_num_attention_heads", 6},
                                                         {"swa_num_key_value_heads", 2},
                                                         {"sliding_window", 64}}));
  CHECK(layout(mimo) == "fsssfssf");
  CHECK(mimo.layers[0].rope.theta == 5e6);
  CHECK(mimo.layers[1].rope.theta == 2e4);
  CHECK(mimo.layers[1].head_dim == 32);
  CHECK(mimo.layers[1].num_query_heads == 6);
  CHECK(mimo.layers[1].num_kv_heads == 2);
}

TEST_CASE("config: what S(m) does not describe is refused by name, its grid is still read") {
  for (const char* type : {"hunyuan_v1_dense", "hunyuan_v1_moe"}) {
    const ModelConfig model = parse(small(type, {{"rope_theta", 1e4}}));
    CHECK(contains(model.refusal, "learned norm"));
    CHECK(contains(model.refusal, type));
    CHECK(model.layers[0].rotates);
  }
  CHECK(contains(parse(small("modernbert")).refusal, "both sides"));
  CHECK(parse(small("modernbert-decoder")).refusal.empty());
  CHECK(contains(parse(small("gemma3_text", {{"use_bidirectional_attention", true}})).refusal, "both sides"));
  const ModelConfig vision = parse(small("gemma3_text", {{"use_bidirectional_attention", "vision"}}));
  CHECK(vision.refusal.empty());
  CHECK(warns(vision, "use_bidirectional_attention"));
  CHECK(contains(parse(small("llama", {{"is_causal", false}})).refusal, "both sides"));

  const ModelConfig nanochat = parse(small("nanochat", {{"rms_norm_eps", 1e-6}}));
  CHECK(nanochat.refusal.empty());
  CHECK(nanochat.layers[0].reversed);
  CHECK(*nanochat.layers[0].norm_after_epsilon == 1e-6);
}

TEST_CASE("config: hostile text ends in one line") {
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += '[';
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not JSON"},
      {"[1, 2]", "expected a JSON object"},
      {"{\"num_hidden_layers\": 2", "not JSON"},
      {"{\"a\": \"\x01\xff\"}", "not JSON"},
      {"{\"a\": 1e999}", "not JSON"},
      {deep, "levels deep"},
      {R"({})", "num_hidden_layers: missing"},
      {R"({"num_hidden_layers": 1000000000})",
       "num_hidden_layers: expected a whole number from 1 to 65536, found 1000000000"},
      {R"({"num_hidden_layers": -3})", "num_hidden_layers: expected a whole number"},
      {R"({"num_hidden_layers": 1e300})", "num_hidden_layers: expected a whole number"},
      {R"({"num_hidden_layers": 2.5})", "num_hidden_layers: expected a whole number"},
      {R"({"num_hidden_layers": "12"})", "num_hidden_layers: expected a number, found \"12\""},
      {R"({"num_hidden_layers": [1]})", "num_hidden_layers: expected a number, found a list of 1"},
      {R"({"num_hidden_layers": Infinity})", "num_hidden_layers: expected a number, found \"Infinity\""},
      {R"({"num_hidden_layers": 2})", "num_attention_heads: missing"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2})", "head_dim: missing"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": "x", "head_dim": 8})",
       "num_attention_heads: expected a number"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 1000000})",
       "head_dim: expected a whole number"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 4096, "rope_theta": 1e4})",
       "1024 lanes"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "rope_scaling": [1]})",
       "rope_scaling: expected an object"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "rope_theta": "big"})",
       "rope_theta: expected a number"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "rope_theta": -1})",
       "rope_theta: expected a number above 0"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "rope_theta": 0.5})",
       "rope_theta must be"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "sliding_window": -4})",
       "sliding_window: expected a whole number"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "layer_types": "full"})",
       "layer_types: expected a list"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "layer_types": [1, 2]})",
       "layer_types[0]: expected text"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "model_type": 5})",
       "model_type: expected text"},
      {R"({"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "per_layer_config": {"9": {}}})",
       "no such layer"},
  };
  for (const auto& [text, part] : cases) {
    const std::string error = error_of_text(text);
    INFO(part << " in: " << error);
    CHECK(contains(error, part));
    CHECK(contains(error, "config.json: "));
    CHECK(error.size() < 500);
    CHECK_FALSE(contains(error, "\n"));
  }
}

TEST_CASE("config: damaged texts never crash") {
  const std::string good =
      small("gemma3_text", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}},
                            {"layer_types", std::vector<std::string>(8, "full_attention")}})
          .dump();
  std::mt19937_64 random(20260910);
  int parsed = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int e = 0; e < edits; ++e) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(text.begin() + static_cast<std::ptrdiff_t>(at),
                      "0123456789-.eE[]{}\",:ntf"[random() % 24]);
      }
      if (text.empty()) text.push_back('{');
    }
    try {
      parse(text);
      ++parsed;
    } catch (const rope::UserError&) {
      ++refused;
    }
  }
  CHECK(parsed + refused == 3000);
  CHECK(parsed > 0);
  CHECK(refused > 0);
}

TEST_SUITE_END();
