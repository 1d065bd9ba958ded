#include "cli/number_list.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "profiler/error.hpp"

using namespace rope;
using namespace rope::cli;

namespace {

std::string refusal(const std::string& text, const NumberRange& range) {
  try {
    parse_numbers("--x", text, range);
  } catch (const UserError& error) {
    CHECK(error.code() == ExitCode::kUsage);
    return error.what();
  }
  return "accepted";
}

std::string whole_refusal(const std::string& text) {
  try {
    parse_whole_numbers("--w", text, 2, std::int64_t{1} << 53);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("number lists: numbers, sums and products") {
  const NumberRange any{-1e300, 1e300};
  CHECK(parse_numbers("--x", "0.5", any) == std::vector{0.5});
  CHECK(parse_numbers("--x", "2,-1,1e-3", any) == std::vector{2.0, -1.0, 1e-3});
  CHECK(parse_numbers("--x", "1:2:0.25", any) == std::vector{1.0, 1.25, 1.5, 1.75, 2.0});
  CHECK(parse_numbers("--x", "0:0.3:0.1", any) ==
        std::vector{0.0, 0.1, 0.2, 0.3});  // the end, not 0.30000000000000004
  CHECK(parse_numbers("--x", "1:10:x3,7", any) == std::vector{1.0, 3.0, 9.0, 7.0});
  CHECK(parse_numbers("--x", "5:5:1", any) == std::vector{5.0});
  using Whole = std::vector<std::int64_t>;
  const auto whole = [](const char* text) {
    return parse_whole_numbers("--w", text, 2, std::int64_t{1} << 53);
  };
  CHECK(whole("1024:8192:x2") == Whole{1024, 2048, 4096, 8192});
  CHECK(whole("10,3:5:1,4") == Whole{3, 4, 5, 10});
  CHECK(whole("10:40:x1.5") == Whole{10, 15, 23, 34});
  CHECK(whole("2:4:x1.1").back() == 4);
  CHECK(whole("1e12:1e15:x10") == Whole{1000000000000, 10000000000000, 100000000000000, 1000000000000000});
  CHECK(whole("9007199254740991,9007199254740992") == Whole{9007199254740991, 9007199254740992});
}

TEST_CASE("number lists: what is refused") {
  const NumberRange open{0, 1, true, true};
  CHECK(refusal("0.5", open) == "accepted");
  CHECK(refusal("0", open) == "--x: expected numbers above 0 and below 1, found \"0\"");
  for (const char* text :
       {"1", "", ",", "0.5,", "x", "nan", "inf", "0.1:0.5", "0.1:0.5:0", "0.1:0.5:-1", "0.1:0.5:x1",
        "0.1:0.5:x", "0.5:0.1:0.1", "0.1:2:0.1", "0.1:0.2:0.1:0.3", " 0.5", "0.5 ", "1e999"}) {
    CAPTURE(text);
    CHECK(refusal(text, open).find("--x: expected numbers above 0 and below 1, found ") == 0);
  }
  CHECK(refusal("1e-300:0.5:1e-300", open).find("more than 100000 numbers") != std::string::npos);
  CHECK(refusal("-1", {0, INFINITY, false, true}) == "--x: expected numbers of at least 0, found \"-1\"");
  CHECK(refusal("3", {0, 2}) == "--x: expected numbers from 0 to 2, found \"3\"");
  for (const char* text :
       {"1", "2.5", "9007199254740993", "9007199254740994", "1e16", "-3", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(whole_refusal(text).find("--w: expected whole numbers from 2 to 9007199254740992") == 0);
  }
  CHECK(whole_refusal("2:9e15:1").find("more than") != std::string::npos);
}

TEST_SUITE_END();
