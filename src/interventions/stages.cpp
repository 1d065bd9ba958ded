#include "interventions/stages.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "profiler/error.hpp"

namespace rope {
namespace {

Intervention rescale(double alpha) { return {Operation::kRescale, alpha}; }

}  // namespace

std::vector<Intervention> stage_candidates(int stage, Direction direction) {
  if (stage != 5 && stage != 10) throw std::logic_error("stage_candidates: a stage is 5 or 10");
  const Intervention freeze{Operation::kFreeze, 1.0};
  switch (direction) {
    case Direction::kSemantic:
      return stage == 5 ? std::vector{freeze, rescale(0), rescale(0.5)}
                        : std::vector{freeze, rescale(0.25), rescale(0.5), rescale(0.75)};
    case Direction::kPositional:
      return stage == 5 ? std::vector{rescale(1.5), rescale(2), rescale(2.5)}
                        : std::vector{rescale(1.25), rescale(1.5), rescale(1.75), rescale(2)};
    case Direction::kNone:
      return {};
  }
  throw std::logic_error("stage_candidates: unknown direction");
}

std::vector<HeadIndex> ranked_heads(const ProfileReader& profile, const DecimalFraction& fraction) {
  const HeadSelection& selection = profile.selection();
  if (selection.rule.empty())
    throw input_error(profile.path(), "/selection", "a selection of heads", "none", "use a finished profile");
  const bool ranked = !selection.order.empty() &&
                      !std::isnan(selection.variance[static_cast<std::size_t>(selection.order.front())]);
  const std::int64_t kept =
      std::min(ranked ? fraction.ceil_of(selection.counted) : std::ssize(selection.order),
               std::ssize(selection.order));
  std::vector<HeadIndex> heads;
  for (std::int64_t i = 0; i < kept; ++i) {
    const ProfileHead& head =
        profile.header().heads[static_cast<std::size_t>(selection.order[static_cast<std::size_t>(i)])];
    heads.emplace_back(head.layer, head.head);
  }
  std::sort(heads.begin(), heads.end());
  return heads;
}

}  // namespace rope
