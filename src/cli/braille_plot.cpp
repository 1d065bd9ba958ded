#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/console.hpp"
#include "cli/curve_plot.hpp"
#include "cli/text.hpp"

namespace rope::cli {
namespace {

constexpr int kRows = 8;  // characters of a panel; 4 dots each

/// A field of dots, 2 x 4 in each character (U+2800 ...), row 0 at the bottom.
class DotCanvas {
 public:
  DotCanvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns * rows), 0) {}
  int width() const { return 2 * columns_; }
  int height() const { return 4 * rows_; }

  void set(int x, int y) {
    // Bits of the dots of a character, from its bottom row up.
    static constexpr unsigned kLeft[4] = {0x40, 0x04, 0x02, 0x01}, kRight[4] = {0x80, 0x20, 0x10, 0x08};
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    unsigned& cell = cells_[static_cast<std::size_t>((y / 4) * columns_ + x / 2)];
    cell |= x % 2 ? kRight[y % 4] : kLeft[y % 4];
  }

  std::string line(int row) const {
    std::string text;
    for (int c = 0; c < columns_; ++c) {
      const unsigned code = 0x2800 + cells_[static_cast<std::size_t>(row * columns_ + c)];
      text += static_cast<char>(0xE2);
      text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
    return text;
  }

 private:
  int columns_, rows_;
  std::vector<unsigned> cells_;
};

int dot_row(double y, double low, double high, int height) {
  return std::clamp(static_cast<int>(std::lround((y - low) / (high - low) * (height - 1))), 0, height - 1);
}

std::string left_label(const std::string& text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(width > used ? width - used : 0, ' ') + text;
}

/// Where a distance lies on an axis of `columns` characters; -1 outside.
int column_of(const PlotScene& scene, double m, int columns) {
  if (!(scene.last > scene.first)) return m == scene.first ? 0 : -1;
  const double share = (m - scene.first) / (scene.last - scene.first);
  return share < 0 || share > 1 ? -1 : static_cast<int>(std::lround(share * (columns - 1)));
}

/// Puts a text into a line of spaces at a column, moved left where it would stand out; false where it would
/// touch another.
bool place(std::string& line, int column, const std::string& text) {
  const int width = static_cast<int>(text.size()), room = static_cast<int>(line.size());
  if (width > room) return false;
  const int start = std::clamp(column - width / 2, 0, room - width);
  const int from = std::max(0, start - 1), until = std::min(room, start + width + 1);
  if (line.find_first_not_of(' ', static_cast<std::size_t>(from)) < static_cast<std::size_t>(until))
    return false;
  line.replace(static_cast<std::size_t>(start), text.size(), text);
  return true;
}

void draw_curve(const PlotCurve& curve, double low, double high, DotCanvas& canvas) {
  const int width = canvas.width(), height = canvas.height();
  for (int x = 0; x < width; ++x) {
    const PlotCurve::Span span =
        curve.span(static_cast<double>(x) / width, static_cast<double>(x + 1) / width);
    const int top = dot_row(span.high, low, high, height);
    for (int y = dot_row(span.low, low, high, height); y <= top; ++y) canvas.set(x, y);
  }
}

}  // namespace

std::vector<std::string> braille_plot(const PlotScene& scene, int width) {
  if (width < kLeastPlotWidth) return {};
  const auto [low, high] = y_range(scene);
  const std::string labels[3] = {short_number(high, 4), short_number(0.5 * (low + high), 4),
                                 short_number(low, 4)};
  std::size_t label_width = 0;
  for (const std::string& label : labels) label_width = std::max(label_width, label.size());
  const int columns = width - static_cast<int>(label_width) - 2;
  const std::string blank(label_width, ' ');
  std::vector<std::string> lines;
  for (const PlotCurve& curve : scene.curves) {
    DotCanvas canvas(columns, kRows);
    for (const PlotScene::Mark& mark : scene.marks)
      if (const int x = column_of(scene, mark.m, canvas.width()); x >= 0)
        for (int y = 0; y < canvas.height(); y += 3) canvas.set(x, y);
    draw_curve(curve, low, high, canvas);
    lines.push_back(blank + "  " + curve.name());
    for (int row = kRows - 1; row >= 0; --row) {
      const std::string& label = row == kRows - 1       ? labels[0]
                                 : row == kRows / 2 - 1 ? labels[1]
                                 : row == 0             ? labels[2]
                                                        : blank;
      lines.push_back(left_label(label, label_width) + (label == blank ? " \u2502" : " \u2524") +
                      canvas.line(row));
    }
  }
  std::string axis = blank + " \u2514";
  for (int c = 0; c < columns; ++c) axis += "\u2500";
  lines.push_back(axis);
  std::string numbers(static_cast<std::size_t>(columns), ' '), marks = numbers;
  place(numbers, 0, fmt::format("{}", scene.first));
  place(numbers, columns - 1, fmt::format("{}", scene.last));
  place(numbers, columns / 2, scene.x_label);
  bool any = false;
  for (const PlotScene::Mark& mark : scene.marks)
    if (const int c = column_of(scene, mark.m, columns); c >= 0)
      any = place(marks, c, fmt::format("^ {}", mark.label)) || any;
  marks.erase(marks.find_last_not_of(' ') + 1);
  if (any) lines.push_back(blank + "  " + marks);
  lines.push_back(blank + "  " + numbers);
  return lines;
}

}  // namespace rope::cli
