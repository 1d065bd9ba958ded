#include "spectral/backend.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "spectral/adjacent_sweep.hpp"
#include "spectral/simd_targets.hpp"

namespace rope::test {
namespace {

using namespace spectral;

TEST_SUITE_BEGIN("spectral");

TEST_CASE("backends: the CPU is always there, and what cannot be used says why") {
  const auto backends = list_backends();
  REQUIRE(backends.size() == 2);
  CHECK(backends[0].name == "cpu");
  CHECK(backends[0].usable);
  CHECK(backends[0].reason.empty());
  REQUIRE(backends[0].devices.size() == 1);
  CHECK(backends[0].devices[0].capability == simd_in_use());
  CHECK(backends[1].name == "cuda");
  if (!backends[1].usable) CHECK(!backends[1].reason.empty());
  for (const auto& device : backends[1].devices) CHECK(device.usable == device.reason.empty());

  CHECK(choose_backend("cpu").name == "cpu");
  CHECK(choose_backend("cpu", 0).name == "cpu");
  CHECK_THROWS_AS(choose_backend("cpu", 1), DeviceError);
  CHECK_THROWS_AS(choose_backend("gpu"), std::invalid_argument);
  const auto chosen = choose_backend("auto");
  CHECK((chosen.name == "cuda") == backends[1].usable);
  CHECK(!chosen.reason.empty());
  if (!backends[1].usable) {
    CHECK_THROWS_WITH_AS(choose_backend("cuda"),
                         ("the cuda backend cannot be used: " + backends[1].reason).c_str(), DeviceError);
  }
}

TEST_CASE("SIMD targets can be forced, and a wrong name lists the valid ones") {
  const auto available = simd_available();
  REQUIRE(!available.empty());
  for (const std::string& target : available) {
    select_simd(target);
    CHECK(simd_in_use() == target);
  }
  select_simd("auto");
  CHECK(simd_in_use() == available.front());
  try {
    select_simd("MMX");
    FAIL("accepted");
  } catch (const std::invalid_argument& e) {
    const std::string text = e.what();
    CHECK(text.find("\"MMX\"") != std::string::npos);
    for (const std::string& target : available) CHECK(text.find(target) != std::string::npos);
  }
  CHECK(simd_in_use() == available.front());
}

TEST_SUITE_END();

}  // namespace
}  // namespace rope::test
