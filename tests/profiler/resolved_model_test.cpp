#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

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

TEST_SUITE_END();
