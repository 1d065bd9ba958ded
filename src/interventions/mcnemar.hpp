#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rope {

/// Exact two-sided p of McNemar's test for `gained` examples that only the changed run solved and `lost` that
/// only the baseline solved: under the null each of the n = gained + lost falls on either side with
/// probability 1/2, so p = min(1, 2 P[Binomial(n, 1/2) <= min(gained, lost)]). 1 for n = 0. Neither may be
/// negative. Relative error below n * 2^-52; time O(min(gained, lost)).
double mcnemar_p(std::int64_t gained, std::int64_t lost);

/// Holm's step-down adjustment: in rising order the i-th of m values (i from 0) becomes the largest of
/// (m - j) p_j over j <= i, at most 1. NaN (no test was made) stays NaN and is not counted in m.
std::vector<double> holm(std::span<const double> p_values);

}  // namespace rope
