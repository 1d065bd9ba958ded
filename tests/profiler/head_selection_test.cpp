#include "profiler/head_selection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "profiler/error.hpp"
#include "support/compare.hpp"
#include "support/make_profile.hpp"
#include "support/temp_dir.hpp"

using namespace rope;
using namespace rope::test;

namespace {

const double kNaN = std::nan("");

std::vector<ProfileHead> heads_of(int layers, int per_layer) {
  std::vector<ProfileHead> heads;
  for (int layer = 0; layer < layers; ++layer)
    for (int head = 0; head < per_layer; ++head) heads.push_back({layer, head, true});
  return heads;
}

std::vector<std::vector<char>> all_stored(std::size_t tasks, std::size_t heads) {
  return std::vector<std::vector<char>>(tasks, std::vector<char>(heads, 1));
}

std::int64_t selected_count(const HeadSelection& s) {
  return std::count(s.selected.begin(), s.selected.end(), char{1});
}

}  // namespace

TEST_SUITE_BEGIN("profiler");

TEST_CASE("a fraction is an exact decimal: the paper's numbers of heads") {
  CHECK(parse_fraction("0.05").ceil_of(1152) == 58);
  CHECK(parse_fraction("0.1").ceil_of(1152) == 116);
  CHECK(parse_fraction("0.05").ceil_of(1024) == 52);
  CHECK(parse_fraction("0.1").ceil_of(1024) == 103);
  CHECK(parse_fraction("0.1").ceil_of(30) == 3);    // 0.1 * 30 > 3 in binary
  CHECK(parse_fraction("0.07").ceil_of(100) == 7);  // 0.07 * 100 > 7 in binary
  CHECK(parse_fraction("1").ceil_of(7) == 7);
  CHECK(parse_fraction("0.000000000001").ceil_of(1 << 22) == 1);
  CHECK(parse_fraction("0.1").ceil_of(0) == 0);
}

TEST_CASE("a fraction has one spelling; others are refused") {
  CHECK(parse_fraction(".0500").text == "0.05");
  CHECK(parse_fraction("00.05").text == "0.05");
  CHECK(parse_fraction("1.000").text == "1");
  for (const char* bad : {"", ".", "0", "0.0", "1.01", "2", "-0.1", "+0.1", "5%", "0.1x", " 0.1", "1e-2",
                          "nan", "0.1.1", "0.0000000000001", "0,05"})
    CHECK_THROWS_AS(parse_fraction(bad), UserError);
}

TEST_CASE("--heads: all, a fraction, a list") {
  CHECK(parse_heads("all").kind == HeadRequest::Kind::kAll);
  CHECK(parse_heads("top:0.1").kind == HeadRequest::Kind::kTop);
  CHECK(parse_heads("top:0.1").fraction.text == "0.1");
  const HeadRequest list = parse_heads("3.1,0.12,3.1");
  CHECK(list.kind == HeadRequest::Kind::kList);
  CHECK(list.list == std::vector<std::pair<int, int>>{{0, 12}, {3, 1}});
  for (const char* bad : {"", "top", "top:", "top:0", "3", "3.", ".3", "3.1,", ",3.1", "3.1 4.1", "-1.0",
                          "3.1.2", "a.b", "99999999999.0", "ALL"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_heads(bad), UserError);
  }
}

TEST_CASE("heads go by sample variance, ties layer-major") {
  const auto heads = heads_of(2, 3);
  // Variances 0.02, 0.5, 0.02, 0, 0.5, 2 (divisor T - 1 = 1).
  const std::vector<std::vector<double>> share{{0.1, 0, 0.3, 0.5, 1, 0}, {0.3, 1, 0.1, 0.5, 0, 2}};
  const HeadSelection s = select_heads(heads, share, all_stored(2, 6), parse_heads("top:0.5"));
  CHECK(s.counted == 6);
  CHECK(s.order == std::vector<std::int64_t>{5, 1, 4, 0, 2, 3});
  CHECK(s.selected == std::vector<char>{0, 1, 0, 0, 1, 1});
  CHECK(s.rule == "top:0.5");
  CHECK_COMPARISON(
      compare_relative("nu", s.variance, std::vector<double>{0.02, 0.5, 0.02, 0, 0.5, 2}, 1e-14, 1e-300));
}

TEST_CASE("variance over three settings, against the definition") {
  const auto heads = heads_of(1, 1);
  const HeadSelection s = select_heads(heads, {{0.2}, {0.5}, {0.9}}, all_stored(3, 1), {});
  const double mean = (0.2 + 0.5 + 0.9) / 3;
  const double nu = (std::pow(0.2 - mean, 2) + std::pow(0.5 - mean, 2) + std::pow(0.9 - mean, 2)) / 2;
  CHECK(s.variance[0] == doctest::Approx(nu).epsilon(1e-14));
}

TEST_CASE("what is counted, what can be selected") {
  auto heads = heads_of(1, 5);
  heads[0].rotates = false;
  auto stored = all_stored(3, 5);
  stored[1][1] = 0;
  // Task 2 has no norm share at all: it is not in T, and nobody misses it.
  const std::vector<std::vector<double>> share{
      {0.9, 0.1, 0.1, 0.2, kNaN}, {0.1, kNaN, 0.2, 0.9, 0.5}, {kNaN, kNaN, kNaN, kNaN, kNaN}};
  const HeadSelection s = select_heads(heads, share, stored, parse_heads("top:1"));
  CHECK(s.counted == 3);  // heads 2, 3 and 4: the last is counted but cannot be selected
  CHECK(s.order == std::vector<std::int64_t>{3, 2});
  CHECK(s.selected == std::vector<char>{0, 0, 1, 1, 0});
  CHECK(s.status[0] == static_cast<char>(HeadStatus::kNoRotation));
  CHECK(s.status[1] == static_cast<char>(HeadStatus::kMissingInTask));
  CHECK(s.status[2] == static_cast<char>(HeadStatus::kRanked));
  CHECK(s.status[4] == static_cast<char>(HeadStatus::kUndefinedInTask));
  CHECK(std::isnan(s.variance[0]));
  CHECK(std::isnan(s.variance[1]));
  CHECK(std::isnan(s.variance[4]));
  CHECK(s.variance[3] == doctest::Approx(0.245).epsilon(1e-14));  // divisor 1, not 2
}

TEST_CASE("one setting: no variance, every head whatever the fraction") {
  const auto heads = heads_of(2, 10);
  const std::vector<double> row(20, 0.5);
  const HeadSelection one = select_heads(heads, {row}, all_stored(1, 20), parse_heads("top:0.05"));
  CHECK(selected_count(one) == 20);
  CHECK(std::isnan(one.variance[3]));
  CHECK(one.order.size() == 20);
  // A second setting without any norm share does not make it two.
  const HeadSelection still_one =
      select_heads(heads, {row, std::vector<double>(20, kNaN)}, all_stored(2, 20), parse_heads("top:0.05"));
  CHECK(selected_count(still_one) == 20);
  // None at all: nothing can be selected.
  const HeadSelection none =
      select_heads(heads, {std::vector<double>(20, kNaN)}, all_stored(1, 20), parse_heads("top:0.05"));
  CHECK(selected_count(none) == 0);
  CHECK(none.order.empty());
}

TEST_CASE("all takes every rotating head, a list its heads; the order stays that of the variance") {
  auto heads = heads_of(2, 2);
  heads[1].rotates = false;
  const std::vector<std::vector<double>> share{{0, 0, 0, 0}, {0.1, 0, 0.3, 0.2}};
  const auto stored = all_stored(2, 4);
  const HeadSelection all = select_heads(heads, share, stored, parse_heads("all"));
  CHECK(all.selected == std::vector<char>{1, 0, 1, 1});
  CHECK(all.order == std::vector<std::int64_t>{2, 3, 0});
  const HeadSelection list = select_heads(heads, share, stored, parse_heads("1.1,0.0"));
  CHECK(list.selected == std::vector<char>{1, 0, 0, 1});
  CHECK(list.rule == "list");
  CHECK(list.order == all.order);
  CHECK_THROWS_WITH_AS(select_heads(heads, share, stored, parse_heads("2.0")),
                       doctest::Contains("no cache stores layer 2 head 0"), UserError);
  CHECK_THROWS_WITH_AS(select_heads(heads, share, stored, parse_heads("0.1")),
                       doctest::Contains("layer 0 head 1 does not rotate"), UserError);
}

TEST_CASE("a selection is reused or cut anew from its ranking") {
  TempDir folder;
  make_profile(folder / "p.h5", ProfileRecipe{});  // heads 2 and 3 do not rotate; order 0 1 4 5 6 7
  const ProfileReader from(folder / "p.h5");
  const auto heads = recipe_header({}).heads;
  const HeadSelection same = reuse_selection(from, heads, nullptr);
  CHECK(same.selected == from.selection().selected);
  CHECK(same.order == from.selection().order);
  CHECK(same.rule == "selection:p.h5");
  const DecimalFraction half = parse_fraction("0.5");
  const HeadSelection cut = reuse_selection(from, heads, &half);
  CHECK(cut.selected == std::vector<char>{1, 1, 0, 0, 1, 0, 0, 0});
  CHECK(cut.rule == "selection:p.h5 top:0.5");

  std::vector<ProfileHead> fewer(heads.begin() + 1, heads.end());  // head 0.0 was selected
  CHECK_THROWS_WITH_AS(reuse_selection(from, fewer, nullptr), doctest::Contains("head 0.0"), UserError);
  std::vector<ProfileHead> more = heads;
  more.push_back({4, 0, true});
  const HeadSelection wide = reuse_selection(from, more, nullptr);
  CHECK(wide.selected.size() == 9);
  CHECK(wide.selected[8] == 0);
  CHECK(wide.status[8] == static_cast<char>(HeadStatus::kMissingInTask));
  std::vector<ProfileHead> turned = heads;
  turned[2].rotates = true;
  CHECK_THROWS_AS(reuse_selection(from, turned, nullptr), UserError);
}

TEST_CASE("stages: the first 5 per cent, the rest of the first 10, none") {
  const auto count = [](std::int64_t counted, int stage) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < counted; ++i) n += stage_of(i, counted) == stage;
    return n;
  };
  CHECK(count(1152, 5) == 58);
  CHECK(count(1152, 10) == 116 - 58);
  CHECK(count(1152, 0) == 1152 - 116);
  CHECK(count(1024, 5) == 52);
  CHECK(count(1024, 10) == 103 - 52);
}

TEST_SUITE_END();
