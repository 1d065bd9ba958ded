#include <stdexcept>

#include "profiler/profile_file.hpp"

namespace rope {
namespace {

constexpr ColumnInfo kScores[] = {
    {"semantic_score", "1", "1 - mean Gaussian probability that the order of a triplet's scores reverses"},
    {"exact_semantic_score", "1", "1 - mean share of distances at which the order of a triplet reverses"},
    {"reversal_gap", "1", "mean over triplets of |Gaussian - exact| reversal"},
    {"positional_score", "1", "mean over pairs and adjacent distances of |S(m+1) - S(m)| / U"},
    {"response_max", "1", "mean over pairs of the largest |S(m+1) - S(m)| / U"},
    {"norm_share", "1", "mean over pairs of r_H = U_H / U, H the high-frequency pairs of the split"},
    {"effective_length_virtual", "tokens", "mean over pairs of E_2 of softmax(S(m)), m = 0 ... window - 1"},
    {"usage_cov", "1", "coefficient of variation over frequencies of mean |Re(z e^(i m omega))|"},
    {"usage_centroid", "ln(rad/token)", "mean of ln omega weighted by mean |Re(z e^(i m omega))|"},
    {"usage_norm_cov", "1", "coefficient of variation over frequencies of mean |z|"},
    {"usage_norm_centroid", "ln(rad/token)", "mean of ln omega weighted by mean |z|"},
    {"frequency_mass", "rad/token", "mean over pairs of sum |z_n| omega_n / sum |z_n|"},
    {"aliasing", "1", "mean over pairs of the share of adjacent scores that are equal in bfloat16"},
    {"aliasing_f16", "1", "mean over pairs of the share of adjacent scores that are equal in float16"},
    {"near_far_order", "1",
     "mean over pairs of P[S(m_far) > S(m_near)], m_near in M+1..2M, m_far in 2M+1..3M"},
    {"near_far_gaussian", "1", "mean over pairs of the Gaussian value of near_far_order, exact moments"},
    {"barrier_exceedance", "1",
     "mean over pairs of the share of distances with S(m) > S_0 (settings: barrier)"},
    {"barrier_gaussian", "1", "mean over pairs of Phi((mu - S_0) / sigma) with the exact moments"},
    {"barrier_gaussian_limit", "1",
     "mean over pairs of Phi((mu - S_0) / s), s^2 = Var_N + U_H^2 / 2 + 2 Cov(H, N)"},
};
static_assert(std::size(kScores) == static_cast<std::size_t>(Score::kCount));

constexpr ColumnInfo kCounts[] = {
    {"triplets", "triplets", "triplets that exist, whatever became of them"},
    {"ties", "triplets", "left out: both scores equal at distance 0 within rounding"},
    {"undefined_triplets", "triplets", "left out: one of the three vectors has zero norm"},
    {"non_finite_triplets", "triplets", "left out: not finite"},
    {"fragile", "triplets", "kept: orientation within two standard deviations of the capture's rounding"},
    {"pairs", "pairs", "query-key pairs that exist, whatever became of them"},
    {"undefined_pairs", "pairs", "left out: U = 0"},
    {"non_finite_pairs", "pairs", "left out: not finite"},
    {"high_pairs", "frequencies", "size of the high-frequency set H at the layer's window"},
    {"layer_window", "tokens",
     "window M of the layer: the example's, capped; 0 where the layer is not stored"},
};
static_assert(std::size(kCounts) == static_cast<std::size_t>(Count::kCount));

}  // namespace

const ColumnInfo& column(Score score) {
  if (score < Score{} || score >= Score::kCount) throw std::logic_error("no such score");
  return kScores[static_cast<std::size_t>(score)];
}

const ColumnInfo& column(Count count) {
  if (count < Count{} || count >= Count::kCount) throw std::logic_error("no such count");
  return kCounts[static_cast<std::size_t>(count)];
}

}  // namespace rope
