#include "cli/curve_plot.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "cli/text.hpp"

using namespace rope::cli;

namespace {

PlotScene scene_of(std::int64_t rows, const std::function<double(std::int64_t)>& y, int curves = 1) {
  PlotScene scene;
  scene.title = "a <title> & more";
  scene.x_label = "distance m, tokens";
  scene.y_label = "score";
  scene.last = static_cast<double>(rows - 1);
  for (int c = 0; c < curves; ++c) {
    scene.curves.emplace_back("curve " + std::to_string(c), rows);
    for (std::int64_t i = 0; i < rows; ++i) scene.curves.back().add(y(i) + c);
  }
  return scene;
}

/// Dots set in a line of braille.
int dots(const std::string& line) {
  int count = 0;
  for (std::string_view rest = line; !rest.empty();) {
    const Utf8Char c = decode_utf8(rest);
    if (c.code >= 0x2800 && c.code < 0x2900)
      count += __builtin_popcountl(static_cast<unsigned long>(c.code - 0x2800));
    rest.remove_prefix(c.bytes);
  }
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("plot curve: thinning keeps every extreme") {
  for (const std::int64_t rows : {1, 2, 3, 4095, 4096, 4097, 100003}) {
    for (const std::int64_t peak : {std::int64_t{0}, rows / 2, rows - 1}) {
      PlotCurve curve("c", rows);
      for (std::int64_t i = 0; i < rows; ++i) curve.add(i == peak ? 7.0 : std::sin(static_cast<double>(i)));
      CHECK(curve.largest() == 7.0);
      CHECK(curve.span(0, 1).high == 7.0);
      const double at = rows > 1 ? static_cast<double>(peak) / static_cast<double>(rows - 1) : 0;
      CHECK(curve.span(std::max(0.0, at - 0.002), std::min(1.0, at + 0.002)).high >
            (rows > 1000 ? 6.99 : 0.0));
    }
  }
}

TEST_CASE("braille plot: fits its width, has axes and one panel per curve") {
  for (const std::int64_t rows : {1, 2, 50, 5000})
    for (const int width : {40, 57, 100}) {
      PlotScene scene = scene_of(
          rows, [](std::int64_t i) { return 1e3 * std::cos(0.01 * static_cast<double>(i)); }, 3);
      scene.marks = {{20, "really at m = 20"}, {1e9, "outside"}};
      const auto lines = braille_plot(scene, width);
      CHECK(lines.size() >= 3 * 9 + 2);
      std::string all;
      int drawn = 0;
      for (const std::string& line : lines) {
        CHECK(display_width(line) <= static_cast<std::size_t>(width));
        drawn += dots(line);
        all += line + "\n";
      }
      CHECK(drawn >= 3 * width);
      for (const char* part : {"curve 0", "curve 1", "curve 2", "\u2514\u2500"})
        CHECK_MESSAGE(all.find(part) != std::string::npos, part);
      CHECK((all.find("really at m = 20") != std::string::npos) == (rows >= 50));
      CHECK(all.find("outside") == std::string::npos);
    }
  CHECK(braille_plot(scene_of(10, [](std::int64_t) { return 1.0; }), 39).empty());
}

TEST_CASE("braille plot: high is above low") {
  const auto lines = braille_plot(scene_of(400, [](std::int64_t i) { return i < 200 ? -1.0 : 1.0; }), 60);
  // The first panel: its title, then 8 lines from the top.
  const auto left_and_right = [&](const std::string& line) {
    int left = 0, right = 0, column = 0;
    for (std::string_view rest = line; !rest.empty(); ++column) {
      const Utf8Char c = decode_utf8(rest);
      if (c.code > 0x2800 && c.code < 0x2900) ++(column < 34 ? left : right);
      rest.remove_prefix(c.bytes);
    }
    return std::pair(left, right);
  };
  CHECK(left_and_right(lines[1]).second > 20);
  CHECK(left_and_right(lines[1]).first <= 1);
  CHECK(left_and_right(lines[8]).first > 20);
  CHECK(left_and_right(lines[8]).second <= 1);
}

TEST_CASE("plots: a constant curve has a range; ticks are round and inside") {
  for (const double y : {0.0, 3.0, -1e-300, 1e300}) {
    const auto [low, high] = y_range(scene_of(5, [y](std::int64_t) { return y; }));
    CHECK(low < y);
    CHECK(high > y);
    CHECK(std::isfinite(high));
  }
  CHECK(round_ticks(-0.3, 1.1, 5) == std::vector<double>{0.0, 0.5, 1.0});
  CHECK(round_ticks(0, 3115, 8) == std::vector<double>{0, 500, 1000, 1500, 2000, 2500, 3000});
  CHECK(round_ticks(1e17, 1e17 + 20, 6).size() <= 20);
}

TEST_CASE("svg plot: self-contained, escaped, bounded") {
  PlotScene scene = scene_of(
      200000, [](std::int64_t i) { return std::sin(0.3 * static_cast<double>(i)); }, 2);
  scene.marks = {{5, "really at m = 5"}};
  const std::string svg = svg_plot(scene);
  CHECK(svg.rfind("<?xml", 0) == 0);
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.size() < 300000);
  for (const char* part : {"a &lt;title&gt; &amp; more", "curve 0", "curve 1", "distance m, tokens",
                           "really at m = 5", "viewBox"})
    CHECK_MESSAGE(svg.find(part) != std::string::npos, part);
  for (const char* part : {"<script", "href", "@import", "url(", "<style", "nan", "inf\""})
    CHECK_MESSAGE(svg.find(part) == std::string::npos, part);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = svg.find("<polyline", at)) != std::string::npos; ++at) ++lines;
  CHECK(lines == 2);
}

TEST_SUITE_END();
