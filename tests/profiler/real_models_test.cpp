#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "profiler/activation_file.hpp"
#include "profiler/model_config.hpp"
#include "support/shared_folder.hpp"

// The configurations inside the shared caches of real models; left out where those are not there.

namespace {

std::string shared_cache(const std::string& name) { return rope::test::shared_folder() + "/data/" + name; }

rope::ResolvedModel resolve(const rope::ActivationFile& file) {
  return rope::ResolvedModel::resolve(file.model(), std::nullopt, "", rope::Trust::kError,
                                      file.tasks().front().layers, {1000});
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("real models: SmolLM2 and Gemma 3 from their caches") {
  if (!std::filesystem::exists(shared_cache("smollm2.h5"))) {
    MESSAGE("left out: the shared caches are not here");
    return;
  }
  const rope::ActivationFile smollm_file(shared_cache("smollm2.h5"));
  const rope::ResolvedModel smollm = resolve(smollm_file);
  CHECK(smollm.warnings().empty());
  CHECK(smollm.groups().size() == 1);
  CHECK(smollm.layers()[29].rope.theta == 1e5);
  CHECK(smollm.layers()[29].logit_scale == 0.125);
  CHECK(smollm.grid(0, 0, 1000).omega.size() == 32);

  const rope::ActivationFile gemma_file(shared_cache("gemma3.h5"));
  const rope::ResolvedModel gemma = resolve(gemma_file);
  CHECK(gemma.warnings().empty());
  REQUIRE(gemma.groups().size() == 2);
  CHECK(gemma.groups()[1] == std::vector<int>{5, 11, 17});
  CHECK(gemma.layers()[0].window == 512);
  CHECK(gemma.layers()[5].window == 0);
  CHECK(gemma.layers()[0].rope.theta == 1e4);
  CHECK(gemma.layers()[5].rope.theta == 1e6);
  CHECK(gemma.layers()[5].logit_scale == 0.0625);
  CHECK_FALSE(gemma.difference(smollm).empty());
}

TEST_SUITE_END();
