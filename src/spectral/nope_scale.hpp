#pragma once

namespace rope::spectral {

/// The scale that a head without position would need (theory §12; A 36): with normal logits of variance
/// sigma^2, E_beta of L keys at scale lambda is L exp(-beta lambda^2 sigma^2 / 2), so that it is E* at
///     lambda = sqrt((2 / (beta sigma^2)) ln(L / E*)).
/// NaN where there is none: sigma^2 = 0 or E* > L. effective_length = E* >= 1, length = L >= 1.
double nope_scale(double length, double effective_length, double logit_variance, double beta = 2);

}  // namespace rope::spectral
