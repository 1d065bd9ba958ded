#include "spectral/score_trace.hpp"

#include <cmath>

#include "spectral/phase.hpp"

namespace rope::spectral {
namespace {

/// A running sum with the rounding errors of its terms kept aside.
struct CompensatedSum {
  double sum = 0, rest = 0;

  void add(double x) {
    const double next = sum + x;
    rest += std::abs(sum) >= std::abs(x) ? (sum - next) + x : (x - next) + sum;
    sum = next;
  }
  /// Re((re + i im) e).
  void add_turned(double re, double im, const Phase& e) {
    const double first = re * e.cos, second = im * e.sin;
    add(first);
    add(-second);
    rest += std::fma(re, e.cos, -first) - std::fma(im, e.sin, -second);
  }
  double value() const { return sum + rest; }
};

}  // namespace

ScoreTrace::ScoreTrace(TraceVector vector) : vector_(std::move(vector)) {
  for (std::size_t n = 0; n < vector_.omega.size(); ++n) {
    const double c = cos_minus_one(vector_.omega[n]), s = std::sin(vector_.omega[n]);
    step_re_.push_back(vector_.re[n] * c - vector_.im[n] * s);
    step_im_.push_back(vector_.re[n] * s + vector_.im[n] * c);
  }
}

TracePoint ScoreTrace::at(std::int64_t m) const {
  CompensatedSum high, low, step;
  for (std::size_t n = 0; n < vector_.omega.size(); ++n) {
    const Phase e = phase_at(static_cast<double>(m), vector_.omega[n]);
    (vector_.high[n] ? high : low).add_turned(vector_.re[n], vector_.im[n], e);
    step.add_turned(step_re_[n], step_im_[n], e);
  }
  CompensatedSum score = high;
  score.add(low.sum);
  score.rest += low.rest;
  score.add(vector_.constant);
  return {score.value(), step.value(), high.value(), low.value()};
}

}  // namespace rope::spectral
