#pragma once

#include <limits>
#include <span>
#include <vector>

namespace rope::spectral {

/// The logit scales that are looked at: (0, 1e4], where below 1e-8 nothing differs from 0.
inline constexpr double kLeastLogitScale = 1e-8, kLargestLogitScale = 1e4;
/// Relative width of the interval that a search ends with.
inline constexpr double kScaleTolerance = 1e-8;

/// Bisection for the lambda at which a function that does not rise with lambda (mean ln E_2, theory §12) has
/// a given value, for functions that are costly per visit and cheap per point: each round asks for the values
/// at some 12 points at once. Evenly spread ones cut the interval by 7 at least, those beside the root of the
/// curve through the last points usually by far more; 4 to 6 rounds do. Where the function has the value on
/// an interval, its lower end.
class ScaleSearch {
 public:
  enum class State {
    kOpen,  ///< more rounds to come
    kFound,
    kBelow,     ///< the value is not reached at any lambda > 0: even at 1e-8 the function is not above it
    kAbove,     ///< not reached up to 1e4
    kUndefined  ///< a value was NaN
  };

  /// The points of the first round, rising, the same for every search: 1 is among them at kUnitPoint.
  static std::span<const double> first_points();
  static constexpr std::size_t kUnitPoint = 8;

  /// Takes the values at first_points() and the value that is sought.
  void start(std::span<const double> values, double target);
  /// The points of the next round while state() is kOpen, rising; none otherwise.
  std::span<const double> points() const { return points_; }
  /// Takes the values at points().
  void update(std::span<const double> values);

  State state() const { return state_; }
  double scale() const { return scale_; }  ///< lambda, where kFound; else NaN

 private:
  struct Known {
    double t, value;  // t = ln lambda
  };
  void take(std::span<const double> points, std::span<const double> values);
  void choose_points();
  double estimate() const;

  double target_ = 0;
  std::vector<Known> known_;  // rising; a few on both sides of the root
  std::size_t below_ = 0;     // the last one whose value is above the target
  std::vector<double> points_;
  State state_ = State::kOpen;
  double scale_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace rope::spectral
