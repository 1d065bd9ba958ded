#include "spectral/score_law_kernel.hpp"

#include "spectral/score_law.hpp"
#include "spectral/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "spectral/score_law_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

std::size_t Lanes() { return hn::Lanes(D()); }

/// The bin of a score in units of a bin: cut off to [0, kBins - 1], where truncation rounds down.
HWY_INLINE void StoreBin(V score, std::int32_t* to) {
  const D d;
  const hn::Rebind<std::int32_t, D> di;
  const V shifted = hn::Add(score, hn::Set(d, static_cast<float>(ScoreLaw::kInner / 2 + 1)));
  const V inside =
      hn::Min(hn::Max(shifted, hn::Zero(d)), hn::Set(d, static_cast<float>(ScoreLaw::kBins - 1)));
  hn::StoreU(hn::ConvertTo(di, inside), di, to);
}

void Block(const LawBlock& block, std::size_t tiles) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const float* HWY_RESTRICT table = block.table;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    V even[kLawTile], odd[kLawTile];
    for (std::size_t r = 0; r < kLawTile; ++r) even[r] = odd[r] = hn::Zero(d);
    for (std::size_t n = 0; n < block.h; ++n) {
      const V re = hn::LoadU(d, block.re + n * lanes), im = hn::LoadU(d, block.im + n * lanes);
      for (std::size_t r = 0; r < kLawTile; ++r) {
        even[r] = hn::MulAdd(hn::Set(d, table[r]), re, even[r]);
        odd[r] = hn::MulAdd(hn::Set(d, table[kLawTile + r]), im, odd[r]);
      }
      table += 2 * kLawTile;
    }
    for (std::size_t r = 0; r < kLawTile; ++r) {
      const std::size_t row = (tile * kLawTile + r) * lanes;
      StoreBin(hn::Sub(even[r], odd[r]), block.above + row);
      StoreBin(hn::Add(even[r], odd[r]), block.below + row);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope::spectral {

HWY_EXPORT(Lanes);
HWY_EXPORT(Block);

std::size_t law_lanes() {
  obey_simd_environment();
  return HWY_DYNAMIC_DISPATCH(Lanes)();
}

void law_block(const LawBlock& block, std::size_t tiles) { HWY_DYNAMIC_DISPATCH(Block)(block, tiles); }

}  // namespace rope::spectral
#endif
