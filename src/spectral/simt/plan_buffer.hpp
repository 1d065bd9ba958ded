#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "spectral/compressed_plan.hpp"
#include "spectral/simt/sweep_args.hpp"

namespace rope::spectral::simt {

/// All tables of a plan in one piece of memory, for one copy to a device.
class PlanBuffer {
 public:
  /// omega: [n_freq] in the order of the batches.
  PlanBuffer(const CompressedPlan& plan, std::span<const double> omega);

  const void* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  /// Pointers into a copy of the buffer that starts at `base` (aligned to 16 bytes).
  PlanTables tables(const void* base) const;

 private:
  template <class T>
  std::size_t append(std::span<const T> values);

  PlanTables sizes_;
  std::vector<unsigned char> bytes_;
  std::size_t omega_, order_, even_, odd_, project_even_, project_odd_, turn_, transfer_a_, transfer_b_;
};

}  // namespace rope::spectral::simt
