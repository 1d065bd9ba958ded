#include "interventions/alpha_sweep.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "profiler/error.hpp"

using namespace rope;

namespace {

std::vector<std::string> ids(const std::string& text) {
  std::vector<std::string> all;
  for (const Intervention& point : parse_alpha_sweep(text)) {
    CHECK(point.operation == Operation::kRescale);
    all.push_back(point.id());
  }
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("interventions");

TEST_CASE("alpha sweep: every strength is the float64 nearest to its decimal") {
  const auto sweep = parse_alpha_sweep("0:3:0.1");
  REQUIRE(sweep.size() == 31);
  for (std::size_t i = 0; i < sweep.size(); ++i) {
    const std::string text = std::to_string(i / 10) + "." + std::to_string(i % 10);
    CHECK(sweep[i].alpha == std::strtod(text.c_str(), nullptr));
  }
  CHECK(ids("0.3:0.9:0.3") == std::vector<std::string>{"0.3", "0.6", "0.9"});
  CHECK(ids("0.000000001:0.000000003:0.000000001") == std::vector<std::string>{"1e-09", "2e-09", "3e-09"});
  const auto fine = parse_alpha_sweep("1.23:1.230999:0.000001");
  REQUIRE(fine.size() == 1000);
  for (std::size_t i = 0; i < fine.size(); ++i) {
    std::string digits = std::to_string(i);
    digits.insert(0, 3 - digits.size(), '0');
    CHECK(fine[i].alpha == std::strtod(("1.230" + digits).c_str(), nullptr));
  }
}

TEST_CASE("alpha sweep: ends at TO or the last step before it") {
  CHECK(ids("0:3:1") == std::vector<std::string>{"0", "1", "2", "3"});
  CHECK(ids("0:1:0.7") == std::vector<std::string>{"0", "0.7"});
  CHECK(ids("2:2:0.1") == std::vector<std::string>{"2"});
  CHECK(ids("10000:10000:9") == std::vector<std::string>{"10000"});
  CHECK(parse_alpha_sweep("0:0.999:0.001").size() == 1000);
}

TEST_CASE("alpha sweep: what it refuses") {
  for (const char* text : {"",
                           ":",
                           "::",
                           "0:3",
                           "0:3:",
                           "0:3:0",
                           "0:3:0.0",
                           "0:3:-1",
                           "-1:3:1",
                           "3:0:1",
                           "nan:3:1",
                           "0:nan:1",
                           "0:inf:1",
                           "0:3:nan",
                           "0:3:1:1",
                           "0:3:1 ",
                           " 0:3:1",
                           "0:3:1e-3",
                           "0:3:0x1",
                           "+0:3:1",
                           "0:3:.5",
                           "0:3:1.",
                           "0:10000.1:100",
                           "0:3:0.0000000001",
                           "0:99999999999999999999:1",
                           "0,3,1",
                           "0..1:3:1",
                           "0:1.5.2:1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_alpha_sweep(text), UserError);
  }
  for (const char* text : {"0:1:0.001", "0:10000:0.000000001", "0:3:0.000000001"}) {
    CAPTURE(text);
    try {
      parse_alpha_sweep(text);
      FAIL("accepted");
    } catch (const UserError& error) {
      CHECK(error.code() == ExitCode::kUsage);
      CHECK(std::string(error.what()).find("points, more than 1000") != std::string::npos);
    }
  }
}

TEST_SUITE_END();
