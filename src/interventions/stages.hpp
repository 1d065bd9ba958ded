#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "interventions/intervention.hpp"
#include "profiler/head_selection.hpp"
#include "profiler/ranking.hpp"

namespace rope {

/// (layer, query head), counted from 0.
using HeadIndex = std::pair<int, int>;

/// Candidates of a stage, in the order of theory §7 (P G.2.3): stage 5 semantic {NR, 0, 0.5}, positional
/// {1.5, 2, 2.5}; stage 10 semantic {NR, 0.25, 0.5, 0.75}, positional {1.25, 1.5, 1.75, 2}. None for
/// Direction::kNone. stage: 5 or 10.
std::vector<Intervention> stage_candidates(int stage, Direction direction);

/// The first ceil(fraction * counted) heads of a profile's ranking by variance, by layer, then head: 5 or 10
/// per cent (DecimalFraction 0.05, 0.1), or another share. Where no variance is defined (one task): every
/// ranked head.
std::vector<HeadIndex> ranked_heads(const ProfileReader& profile, const DecimalFraction& fraction);

}  // namespace rope
