#pragma once

namespace rope::spectral {

/// A head that has to find one key wherever it stands in a window, and to leave it alone outside (theory §12;
/// A 12, 47). Logits carry the softmax scale: |z_n| and the norms hold it, too.
struct WindowTask {
  double window = 0;     ///< w >= 0: the window's distances are 0 ... w
  double slack = 0;      ///< r >= 0: at most r w of these distances may fail
  double epsilon = 0;    ///< 0 < epsilon < 1: the key's weight is >= 1 - epsilon inside, <= epsilon outside
  double amplitude = 0;  ///< A* = sum |z_n| > 0 of the query and that key: the most that turns of its logit
  double norm_product = 0;  ///< ||q|| ||k_-|| >= 0: no other key's logit is larger in size
  double length = 2;        ///< L >= 2 keys
  double max_omega = 1;     ///< largest frequency of the head, 0 < max_omega <= pi, radians per token
};

/// lower <= mass <= upper for the head's frequency mass sum |z_n| omega_n / A*, radians per token.
struct WindowTaskBounds {
  double needed = 0;  ///< logit that the key must reach inside: ln(L-1) + ln((1-eps)/eps) - ||q|| ||k_-||
  double c1 = 0, c2 = 0;
  double lower = 0;        ///< C1 / (r w / 2 + 1); <= 0 says nothing
  double upper = 0;        ///< pi / (w+1), plus C2 where max omega > pi / (w+1)
  bool has_fast = false;   ///< max omega > pi / (w+1)
  bool says_low = false;   ///< lower > 0
  bool says_high = false;  ///< upper < max omega
  bool possible = false;   ///< needed <= A*, lower <= upper and lower <= max omega
};

/// Lower bound: at most r w distances fail on both edges together, so beside one edge there is a distance
/// that holds at most r w / 2 + 1 steps from the first one outside, and |S(m) - S(m')| <= A* mass |m - m'|.
/// Upper bound: the mean of S over w + 1 neighbouring distances is at least `needed` (no slack here), while
/// a pair of frequency omega has a mean of at most |z_n| (1 + 1/(w+1) - omega/pi).
/// Throws std::invalid_argument naming the parameter that is out of range.
WindowTaskBounds window_task_bounds(const WindowTask& task);

}  // namespace rope::spectral
