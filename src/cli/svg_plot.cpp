#include <fmt/format.h>

#include <algorithm>

#include "cli/console.hpp"
#include "cli/curve_plot.hpp"

namespace rope::cli {
namespace {

constexpr double kWidth = 960, kHeight = 480, kLeft = 78, kRight = 24, kTop = 56, kBottom = 56;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#999999", "#009e73", "#cc79a7"};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n", x1, y1, x2, y2,
                     style);
}

class Picture {
 public:
  explicit Picture(const PlotScene& scene) : scene_(scene) {
    std::tie(low_, high_) = y_range(scene);
    const double room = 0.04 * (high_ - low_);
    low_ -= room;
    high_ += room;
  }

  std::string text() const {
    std::string svg = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"13\">\n<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        kWidth, kHeight, escaped(scene_.title));
    svg += text_at(kLeft, 22, "start", scene_.title, " font-size=\"15\"");
    svg += axes() + marks();
    for (std::size_t i = 0; i < scene_.curves.size(); ++i) svg += curve(i);
    return svg + legend() + "</svg>\n";
  }

 private:
  double x(double m) const {
    const double width = scene_.last - scene_.first;
    return kLeft + (width > 0 ? (m - scene_.first) / width : 0.5) * kPlotWidth;
  }
  double y(double value) const { return kTop + (high_ - value) / (high_ - low_) * kPlotHeight; }

  std::string axes() const {
    std::string svg =
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#333333\"/>\n",
                    kLeft, kTop, kPlotWidth, kPlotHeight);
    for (const double tick : round_ticks(low_, high_, 6)) {
      svg += line(kLeft, y(tick), kLeft + kPlotWidth, y(tick),
                  tick == 0 ? "stroke=\"#999999\"" : "stroke=\"#e5e5e5\"");
      svg += text_at(kLeft - 8, y(tick) + 4.5, "end", fmt::format("{:.6g}", tick));
    }
    for (const double tick : round_ticks(scene_.first, std::max(scene_.last, scene_.first + 1), 8)) {
      if (tick > scene_.last) break;
      svg += line(x(tick), kTop + kPlotHeight, x(tick), kTop + kPlotHeight + 5, "stroke=\"#333333\"");
      svg += text_at(x(tick), kTop + kPlotHeight + 20, "middle", fmt::format("{:.10g}", tick));
    }
    svg += text_at(kLeft + kPlotWidth / 2, kHeight - 12, "middle", scene_.x_label);
    return svg + text_at(18, kTop + kPlotHeight / 2, "middle", scene_.y_label,
                         fmt::format(" transform=\"rotate(-90 18 {})\"", kTop + kPlotHeight / 2).c_str());
  }

  std::string marks() const {
    std::string svg;
    for (const PlotScene::Mark& mark : scene_.marks) {
      if (mark.m < scene_.first || mark.m > scene_.last) continue;
      svg +=
          line(x(mark.m), kTop, x(mark.m), kTop + kPlotHeight, "stroke=\"#333333\" stroke-dasharray=\"4 4\"");
      svg +=
          text_at(std::clamp(x(mark.m), kLeft + 60, kLeft + kPlotWidth - 60), kTop - 5, "middle", mark.label);
    }
    return svg;
  }

  /// Extremes of narrow parts, one after the other; points themselves where they are few.
  std::string curve(std::size_t index) const {
    const PlotCurve& c = scene_.curves[index];
    std::string points;
    const auto add = [&](double share, double value) {
      points +=
          fmt::format("{}{:.2f},{:.2f}", points.empty() ? "" : " ", kLeft + share * kPlotWidth, y(value));
    };
    const auto parts = static_cast<std::int64_t>(2 * kPlotWidth);
    if (c.rows() <= parts) {
      for (std::int64_t i = 0; i < c.rows(); ++i) {
        const double share = c.rows() > 1 ? static_cast<double>(i) / static_cast<double>(c.rows() - 1) : 0.5;
        const double at = c.rows() > 1 ? share : 0.0;
        add(share, c.span(at, at).low);
      }
    } else {
      double before = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const double first = static_cast<double>(i) / static_cast<double>(parts),
                     last = static_cast<double>(i + 1) / static_cast<double>(parts);
        const PlotCurve::Span span = c.span(first, last);
        const bool falling = std::abs(before - span.high) < std::abs(before - span.low);
        add(first, falling ? span.high : span.low);
        add(first, before = falling ? span.low : span.high);
      }
    }
    return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.3\" points=\"{}\"/>\n",
                       kColours[index % std::size(kColours)], points);
  }

  std::string legend() const {
    std::string svg;
    double at = kLeft;
    for (std::size_t i = 0; i < scene_.curves.size(); ++i) {
      const std::string style =
          fmt::format("stroke=\"{}\" stroke-width=\"2.5\"", kColours[i % std::size(kColours)]);
      svg += line(at, 36, at + 22, 36, style.c_str());
      svg += text_at(at + 28, 40.5, "start", scene_.curves[i].name());
      at += 50 + 7.5 * static_cast<double>(scene_.curves[i].name().size());
    }
    return svg;
  }

  const PlotScene& scene_;
  double low_ = 0, high_ = 1;
};

}  // namespace

std::string svg_plot(const PlotScene& scene) { return Picture(scene).text(); }

}  // namespace rope::cli
