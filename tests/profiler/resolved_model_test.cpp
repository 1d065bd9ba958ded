#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "profiler/error.hpp"
#include "profiler/model_config.hpp"

using nlohmann::json;
using rope::ModelHeader;
using rope::ResolvedModel;
using rope::Trust;

namespace {

const std::vector<int> kAll = {0, 1, 2, 3};
const std::vector<std::int64_t> kWindows = {1000, 3000, 1000};

json llama_config() {
  return {{"model_type", "llama"},    {"num_hidden_layers", 4},   {"hidden_size", 512},
          {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"max_position_embeddings", 4096},
          {"rope_theta", 1e4}};
}

ModelHeader header(const json& config = llama_config()) {
  ModelHeader h;
  h.file = "cache.h5";
  h.name = "model";
  h.num_layers = 4;
  h.num_query_heads = 8;
  h.num_kv_heads = 4;
  h.head_dim = 64;
  if (!config.is_null()) h.config = config.dump();
  return h;
}

std::vector<double> geometric(double base, int pairs) {
  std::vector<double> omega;
  for (int i = 0; i < pairs; ++i) omega.push_back(std::pow(base, -static_cast<double>(i) / pairs));
  return omega;
}

ModelHeader with_inv_freq(ModelHeader h, std::vector<std::int64_t> shape, std::vector<double> values) {
  h.inv_freq_shape = std::move(shape);
  h.inv_freq = std::move(values);
  return h;
}

ResolvedModel resolve(const ModelHeader& h, Trust trust = Trust::kError,
                      const std::vector<int>& stored = kAll,
                      const std::vector<std::int64_t>& windows = kWindows,
                      const std::optional<std::string>& override_text = std::nullopt) {
  return ResolvedModel::resolve(h, override_text, "other.json", trust, stored, windows);
}

std::string error_of(const ModelHeader& h, Trust trust = Trust::kError, const std::vector<int>& stored = kAll,
                     const std::optional<std::string>& override_text = std::nullopt) {
  try {
    resolve(h, trust, stored, kWindows, override_text);
  } catch (const rope::UserError& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("resolve: config alone") {
  const ResolvedModel model = resolve(header());
  CHECK(model.layers().size() == 4);
  CHECK(model.model_type() == "llama");
  CHECK(model.grid(2, 5, 1000).omega == geometric(1e4, 32));
  CHECK_FALSE(model.depends_on_length(0));
  CHECK(model.shared_by_heads(0));
  CHECK(model.layers()[1].logit_scale == 0.125);
  CHECK(model.groups() == std::vector<std::vector<int>>{{0, 1, 2, 3}});
}

TEST_CASE("resolve: the stored frequencies within float32 rounding leave the config's in place") {
  std::vector<double> rounded = geometric(1e4, 32);
  for (double& omega : rounded) omega = static_cast<float>(omega);
  const ResolvedModel model = resolve(with_inv_freq(header(), {32}, rounded));
  CHECK(model.grid(0, 0, 1000).omega == geometric(1e4, 32));
  rounded[7] *= 1 + 2e-5;
  CHECK(contains(error_of(with_inv_freq(header(), {32}, rounded)), "/model/inv_freq"));
}

TEST_CASE("resolve: --trust says which frequencies hold") {
  const std::vector<double> other = geometric(2e4, 32);
  const ModelHeader h = with_inv_freq(header(), {32}, other);
  const std::string error = error_of(h);
  CHECK(contains(error, "cache.h5: /model/inv_freq: expected the config's frequencies"));
  CHECK(contains(error, "layer 0"));
  const ResolvedModel config = resolve(h, Trust::kConfig);
  CHECK(config.grid(0, 0, 1000).omega == geometric(1e4, 32));
  CHECK(config.warnings().size() == 1);
  const ResolvedModel stored = resolve(h, Trust::kInvFreq);
  CHECK(stored.grid(0, 0, 1000).omega == other);
  CHECK(stored.grid(0, 0, 1000).rho == std::pow(1e4, -2.0 / 64.0));
  CHECK(stored.warnings().size() == 1);
  CHECK(stored.shared_by_heads(0));
  // A narrower grid is a difference too.
  CHECK(contains(error_of(with_inv_freq(header(), {16}, geometric(1e4, 16))),
                 "another number of turning pairs"));
  CHECK(resolve(with_inv_freq(header(), {16}, geometric(1e4, 16)), Trust::kInvFreq)
            .grid(0, 0, 9)
            .rotary_dim() == 32);
}

TEST_CASE("resolve: a zero matches a zero only") {
  json config = llama_config();
  config["rope_parameters"] = {
      {"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e4}};
  std::vector<double> omega(32, 0.0);
  for (std::size_t i = 0; i < 8; ++i) omega[i] = std::pow(1e4, -2.0 * static_cast<double>(i) / 64.0);
  CHECK(resolve(with_inv_freq(header(config), {32}, omega)).grid(0, 0, 9).omega[8] == 0.0);
  omega[8] = 1e-12;
  CHECK(contains(error_of(with_inv_freq(header(config), {32}, omega)), "/model/inv_freq"));
}

TEST_CASE("resolve: per-layer and per-head rows; rows that no stored layer needs are ignored") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> good = geometric(1e4, 32);
  std::vector<double> rows;
  for (int layer = 0; layer < 4; ++layer)
    for (const double omega : good) rows.push_back(layer == 2 ? nan : omega);
  CHECK(contains(error_of(with_inv_freq(header(), {4, 32}, rows)), "layer 2"));
  CHECK(error_of(with_inv_freq(header(), {4, 32}, rows), Trust::kError, {0, 1, 3}) == "no error");
  // A layer that does not rotate needs none either.
  json smollm = llama_config();
  smollm["model_type"] = "smollm3";
  smollm["no_rope_layers"] = {1, 1, 0, 1};
  const ResolvedModel model = resolve(with_inv_freq(header(smollm), {4, 32}, rows));
  CHECK_FALSE(model.layers()[2].rotates);
  CHECK(model.grid(2, 0, 100).omega.empty());

  std::vector<double> heads;
  for (int row = 0; row < 4 * 8; ++row)
    for (const double omega : geometric(1e4 * (1 + row / 2), 32)) heads.push_back(omega);
  ModelHeader h = with_inv_freq(header(), {4, 8, 32}, heads);
  const ResolvedModel by_head = resolve(h, Trust::kInvFreq);
  CHECK(by_head.grid(1, 3, 100).omega == geometric(1e4 * (1 + 11 / 2), 32));
  CHECK_FALSE(by_head.shared_by_heads(1));
  // Keys after the rotation share the frequencies of their group of two.
  h.key_rotation = rope::Rotation::kPost;
  CHECK(error_of(h, Trust::kInvFreq) == "no error");
  h.inv_freq[33] *= 1.5;  // head 1 of layer 0
  CHECK(contains(error_of(h, Trust::kInvFreq), "heads 0 and 1 of layer 0 differ"));
}

TEST_CASE("resolve: shapes and values of inv_freq") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {nan, -1e-3, 3.2, std::numeric_limits<double>::infinity()}) {
    std::vector<double> omega = geometric(1e4, 32);
    omega[5] = bad;
    CHECK(contains(error_of(with_inv_freq(header(), {32}, omega)), "from 0 to pi"));
    CHECK(contains(error_of(with_inv_freq(header(nullptr), {32}, omega)), "from 0 to pi"));
  }
  CHECK(contains(error_of(with_inv_freq(header(), {5, 32}, std::vector<double>(160, 0.5))), "found [5, 32]"));
  CHECK(contains(error_of(with_inv_freq(header(), {4, 4, 32}, std::vector<double>(512, 0.5))),
                 "found [4, 4, 32]"));
  CHECK(contains(error_of(with_inv_freq(header(), {33}, std::vector<double>(33, 0.5))), "found [33]"));
  CHECK(contains(error_of(with_inv_freq(header(), {0}, {})), "found [0]"));
  CHECK(contains(error_of(with_inv_freq(header(), {32}, {0.5})), "found [32]"));
}

TEST_CASE("resolve: without a config the stored frequencies are used as they are") {
  const std::vector<double> omega = geometric(1e5, 16);
  ModelHeader h = with_inv_freq(header(nullptr), {16}, omega);
  const ResolvedModel model = resolve(h);
  const auto grid = model.grid(3, 7, 1000);
  CHECK(grid.omega == omega);
  CHECK(grid.attention_factor == 1.0);
  CHECK(grid.rho == doctest::Approx(std::pow(1e5, -1.0 / 16.0)).epsilon(1e-14));
  CHECK(model.layers()[0].logit_scale == 0.125);
  CHECK(model.layers()[0].window == 0);
  CHECK(model.layers()[0].head_dim == 64);
  CHECK(model.warnings().size() == 3);
  h.attention_scale = 0.3;
  CHECK(resolve(h).layers()[0].logit_scale == 0.3);
  CHECK(resolve(h).warnings().size() == 2);
  h.reversed = true;
  CHECK(resolve(h).layers()[2].reversed);
  CHECK(contains(error_of(header(nullptr)), "a config attribute or an inv_freq dataset"));
  // A row of zeros does not rotate.
  std::vector<double> rows(4 * 16, 0.0);
  for (std::size_t i = 0; i < 32; ++i) rows[i] = 0.5;
  const ResolvedModel still = resolve(with_inv_freq(header(nullptr), {4, 16}, rows));
  CHECK(still.layers()[1].rotates);
  CHECK_FALSE(still.layers()[2].rotates);
}

TEST_CASE("resolve: grids that follow the length match the window of at least one example") {
  json config = llama_config();
  config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  config["max_position_embeddings"] = 1024;
  const ResolvedModel plain = resolve(header(config));
  CHECK(plain.depends_on_length(1));
  const std::vector<double> at_3000 = plain.grid(0, 0, 3000).omega, at_1000 = plain.grid(0, 0, 1000).omega;
  CHECK(at_3000 != at_1000);
  const ResolvedModel matched = resolve(with_inv_freq(header(config), {32}, at_3000));
  CHECK(matched.grid(0, 0, 1000).omega == at_1000);
  CHECK(matched.depends_on_length(0));
  const std::vector<double> at_2000 = plain.grid(0, 0, 2000).omega;
  CHECK(contains(error_of(with_inv_freq(header(config), {32}, at_2000)), "/model/inv_freq"));
  // --trust inv_freq overrides the choice by length, even where one window agrees.
  const ResolvedModel trusted = resolve(with_inv_freq(header(config), {32}, at_3000), Trust::kInvFreq);
  CHECK_FALSE(trusted.depends_on_length(0));
  CHECK(trusted.grid(0, 0, 1000).omega == at_3000);

  json longrope = llama_config();
  longrope["rope_scaling"] = {{"type", "longrope"},
                              {"short_factor", std::vector<double>(32, 1.0)},
                              {"long_factor", std::vector<double>(32, 4.0)},
                              {"original_max_position_embeddings", 2000}};
  const ResolvedModel lists = resolve(header(longrope));
  CHECK(lists.grid(0, 0, 2000).omega[0] == 1.0);
  CHECK(lists.grid(0, 0, 2001).omega[0] == 0.25);
  for (const std::int64_t window : {1000, 3000})
    CHECK(error_of(with_inv_freq(header(longrope), {32}, lists.grid(0, 0, window).omega)) == "no error");
}

TEST_CASE("resolve: config and --config") {
  ModelHeader bare = header(nullptr);
  CHECK(resolve(bare, Trust::kError, kAll, kWindows, llama_config().dump()).grid(0, 0, 9).omega ==
        geometric(1e4, 32));
  json same = llama_config();
  same.erase("rope_theta");
  same["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  same["vocab_size"] = 12345;
  CHECK(error_of(header(), Trust::kError, kAll, same.dump()) == "no error");
  const std::vector<std::pair<json, std::string>> others = {
      {{{"rope_parameters", {{"rope_theta", 2e4}}}}, "layer 0: rotary frequencies"},
      {{{"query_pre_attn_scalar", 100}}, "layer 0: logit scale 0.125 against 0.1"},
      {{{"sliding_window", 64},
        {"layer_types", {"full_attention", "full_attention", "sliding_attention", "full_attention"}}},
       "layer 2: window 0 against 64"},
      {{{"num_hidden_layers", 5}}, "number of layers 4 against 5"},
      {{{"num_key_value_heads", 2}}, "layer 0: key heads 4 against 2"},
      {{{"model_type", "smollm3"}, {"no_rope_layers", {1, 0, 1, 1}}}, "layer 1: layer kind"}};
  for (const auto& [change, part] : others) {
    json config = same;
    config.update(change);
    const std::string error = error_of(header(), Trust::kError, kAll, config.dump());
    INFO(part << " in: " << error);
    CHECK(contains(error, part));
    CHECK(contains(error, "other.json disagrees with cache.h5: /model/config"));
  }
  CHECK(contains(error_of(header(), Trust::kError, kAll, "{"), "other.json: not JSON"));
  ModelHeader broken = header();
  broken.config = "{";
  CHECK(contains(error_of(broken), "cache.h5: /model/config: not JSON"));
}

TEST_CASE("resolve: the header's sizes against the config's") {
  const auto changed = [](int ModelHeader::*member, int value) {
    ModelHeader h = header();
    h.*member = value;
    return error_of(h);
  };
  CHECK(contains(changed(&ModelHeader::head_dim, 128), "/model/head_dim: expected 64"));
  CHECK(contains(changed(&ModelHeader::num_query_heads, 16), "/model/num_query_heads: expected 8"));
  CHECK(contains(changed(&ModelHeader::num_kv_heads, 8), "/model/num_kv_heads: expected 4"));
  CHECK(contains(changed(&ModelHeader::num_layers, 5), "/model/num_layers: expected 4"));
  CHECK(contains(changed(&ModelHeader::num_layers, 1000000000), "/model/num_layers"));

  // Another model's config: the heads are named, not the head_dim that follows from them.
  json other = llama_config();
  other["num_attention_heads"] = 16;
  try {
    resolve(header(other));
    FAIL("accepted");
  } catch (const rope::UserError& error) {
    CHECK(contains(error.what(), "/model/num_query_heads: expected 16, as the config says of layer 0"));
    CHECK(contains(error.what(), "found 8 in the cache"));
    CHECK(contains(error.hint(), "another model"));
  }

  // A file holds the layers of one shape; the others are described by the config alone.
  json gemma = {
      {"model_type", "gemma4_text"},
      {"num_hidden_layers", 4},
      {"hidden_size", 512},
      {"num_attention_heads", 8},
      {"num_key_value_heads", 4},
      {"head_dim", 64},
      {"global_head_dim", 128},
      {"sliding_window", 64},
      {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}}};
  ModelHeader local = header(gemma), global = header(gemma);
  global.head_dim = 128;
  CHECK(contains(error_of(local), "full_attention"));
  const ResolvedModel a = resolve(local, Trust::kError, {0, 2}), b = resolve(global, Trust::kError, {1, 3});
  CHECK(a.layers()[1].head_dim == 128);
  CHECK(b.layers()[1].head_dim == 128);
  CHECK(a.difference(b).empty());
  CHECK(a.groups() == std::vector<std::vector<int>>{{0, 2}, {1, 3}});
}

TEST_CASE("resolve: models that S(m) does not describe are refused") {
  json config = llama_config();
  config["model_type"] = "hunyuan_v1_dense";
  CHECK(contains(error_of(header(config)), "hunyuan_v1_dense applies a learned norm"));
  config["model_type"] = "modernbert";
  CHECK(contains(error_of(header(config)), "modernbert attends to both sides"));
}

TEST_CASE("resolve: attention_scale replaces the softmax scale of every layer") {
  ModelHeader h = header();
  h.attention_scale = 0.5;
  const ResolvedModel scaled = resolve(h);
  for (const auto& layer : scaled.layers()) CHECK(layer.logit_scale == 0.5);
  CHECK(contains(scaled.difference(resolve(header())), "layer 0: logit scale 0.5 against 0.125"));
}

TEST_CASE("resolve: files of one model agree in every layer") {
  const ResolvedModel model = resolve(header());
  CHECK(model.difference(resolve(header())).empty());
  json scaled = llama_config();
  scaled["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  CHECK(contains(model.difference(resolve(header(scaled))), "layer 0: rotary frequencies"));
  const ModelHeader bare = with_inv_freq(header(nullptr), {32}, geometric(1e4, 32));
  CHECK(contains(model.difference(resolve(bare)), "has a config"));
  // Rows of layers that a file does not hold say nothing.
  std::vector<double> first(4 * 32, 0.25), second(4 * 32, 0.25);
  first[3 * 32] = 0.75;
  const auto rows = [](const std::vector<double>& values, const std::vector<int>& stored) {
    return resolve(with_inv_freq(header(nullptr), {4, 32}, values), Trust::kError, stored);
  };
  CHECK(rows(first, {0, 1}).difference(rows(second, {2, 3})).empty());
  CHECK(contains(rows(first, {0, 3}).difference(rows(second, {2, 3})), "layer 3: rotary frequencies"));
}

TEST_SUITE_END();
