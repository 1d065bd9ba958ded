#include "interventions/mask.hpp"

#include <algorithm>

namespace rope {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 24;

}  // namespace

std::int64_t capped_window(std::int64_t prompt_length, std::int64_t layer_window) {
  return layer_window > 0 ? std::min(prompt_length, layer_window) : prompt_length;
}

std::vector<int> masked_pairs(const spectral::SplitRule& split, std::span<const double> omega, double rho,
                              std::int64_t prompt_length, std::int64_t layer_window) {
  const auto mask =
      spectral::high_frequency_mask(split, omega, rho, capped_window(prompt_length, layer_window));
  std::vector<int> pairs;
  for (std::size_t n = 0; n < mask.size(); ++n)
    if (mask[n]) pairs.push_back(static_cast<int>(n));
  return pairs;
}

std::vector<MaskStep> mask_steps(const spectral::SplitRule& split, std::span<const double> omega, double rho,
                                 std::int64_t layer_window) {
  const auto size_at = [&](std::int64_t length) {
    return static_cast<int>(masked_pairs(split, omega, rho, length, layer_window).size());
  };
  std::vector<MaskStep> steps;
  const int last = size_at(kLongest);
  std::int64_t from = 1;
  for (int size = size_at(1);; size = size_at(from)) {
    if (size > 0) steps.push_back({from, size});
    if (size == last) return steps;
    // The first length at which H is larger than it is at `from`.
    std::int64_t low = from, high = kLongest;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (size_at(middle) > size ? high : low) = middle;
    }
    from = high;
  }
}

}  // namespace rope
