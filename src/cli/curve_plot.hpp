#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace rope::cli {

/// One curve over evenly spaced rows, thinned to a bounded number of bins that keep the extremes, so that no
/// peak is lost.
class PlotCurve {
 public:
  static constexpr std::int64_t kMostBins = 4096;

  PlotCurve(std::string name, std::int64_t rows);
  void add(double y);  ///< the next row; finite

  const std::string& name() const { return name_; }
  std::int64_t rows() const { return rows_; }
  double least() const;
  double largest() const;
  /// Extremes over the part [first, last) of the width, 0 <= first < last <= 1; a part between two rows is
  /// interpolated. Joined: neighbouring parts overlap in the values between them.
  struct Span {
    double low, high;
  };
  Span span(double first, double last) const;

 private:
  std::string name_;
  std::int64_t rows_, next_ = 0;
  std::vector<Span> bins_;
};

/// What is to be drawn: curves over m = first ... last, on one scale of y.
struct PlotScene {
  std::string title, x_label, y_label;
  double first = 0, last = 0;  ///< m of the first and the last row
  std::vector<PlotCurve> curves;
  struct Mark {
    double m;
    std::string label;
  };
  std::vector<Mark> marks;  ///< vertical lines; those outside are left out
};

/// Range of y over all curves, never empty.
std::pair<double, double> y_range(const PlotScene& scene);
/// Round numbers inside [low, high], about `count` of them: 1, 2 or 5 times a power of ten apart.
std::vector<double> round_ticks(double low, double high, int count);

/// Narrowest terminal that a picture is drawn for.
inline constexpr int kLeastPlotWidth = 40;
/// Lines of at most `width` columns: one panel of braille dots per curve, with axes. Empty where the terminal
/// is narrower than kLeastPlotWidth.
std::vector<std::string> braille_plot(const PlotScene& scene, int width);

/// A self-contained SVG picture: no scripts, no external fonts or styles.
std::string svg_plot(const PlotScene& scene);

}  // namespace rope::cli
