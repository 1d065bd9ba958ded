#pragma once

#include <cstdint>
#include <vector>

#include "reference/direct.hpp"

namespace rope::reference {

// Effective lengths and attention weights (theory §12) by direct sums in long double, from the theory alone.

/// alpha of softmax logits; sink: an extra logit that takes its share, -infinity for none.
std::vector<long double> softmax(const std::vector<long double>& logits, long double sink);

/// ln E_beta of softmax logits, straight from the definition: weights first, then their powers.
long double log_effective_length(const std::vector<long double>& logits, double beta);

/// S(p_q - p_k), or cap * tanh of it, of one query with every key that it sees, by rising position.
struct LogitRow {
  std::vector<std::int64_t> position;  ///< of the keys
  std::vector<long double> logit;
};
/// query: slot. window: p_q - p_k < window, or, chunked, the chunk of that width that holds p_q.
LogitRow logit_row(const HeadInput& input, std::size_t query, std::int64_t window, bool chunked);

/// S(m) of a pair (slots), m = 0 ... input.window - 1; frozen: pairs that are stopped (theory §7); may be
/// empty.
std::vector<long double> window_logits(const HeadInput& input, std::size_t query, std::size_t key,
                                       const std::vector<char>& frozen);

/// Least squares ln E = a + b ln L with the interval of b that holds it with probability 95 % for normal
/// residuals: the quantile of Student's t is found by integrating its density.
struct LineFit {
  long double intercept, slope, low, high;
};
LineFit fit_line(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace rope::reference
