#pragma once

#include <cmath>
#include <span>
#include <string>

namespace rope::test {

/// Outcome of comparing values with a reference; `ok()` is false on any NaN on either side unless both are
/// NaN and `nan_matches` was asked for.
struct Comparison {
  std::string what;
  double bound = 0, worst = 0;  ///< worst deviation in the units of the bound
  std::size_t index = 0, count = 0;
  bool failed = false;
  bool ok() const { return !failed; }
  double share() const { return worst / bound; }  ///< share of the bound used
  std::string text() const;
};

/// |value - expected| <= bound * max(|expected|, floor) for every element.
Comparison compare_relative(const std::string& what, std::span<const double> value,
                            std::span<const double> expected, double bound, double floor = 0.0,
                            bool nan_matches = false);
/// |value - expected| <= bound.
Comparison compare_absolute(const std::string& what, std::span<const double> value,
                            std::span<const double> expected, double bound, bool nan_matches = false);

}  // namespace rope::test

/// Checks a Comparison and prints the share of the bound used.
#define CHECK_COMPARISON(c)                              \
  do {                                                   \
    const auto comparison_ = (c);                        \
    MESSAGE(comparison_.text());                         \
    CHECK_MESSAGE(comparison_.ok(), comparison_.text()); \
  } while (false)
