#include "spectral/simt/plan_buffer.hpp"

#include <cstring>

namespace rope::spectral::simt {

template <class T>
std::size_t PlanBuffer::append(std::span<const T> values) {
  const std::size_t at = bytes_.size();
  bytes_.resize(at + (values.size_bytes() + 15) / 16 * 16);
  if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size_bytes());
  return at;
}

PlanBuffer::PlanBuffer(const CompressedPlan& plan, std::span<const double> omega) {
  sizes_.n_freq = static_cast<int>(plan.n_freq);
  sizes_.n_direct = static_cast<int>(plan.n_direct);
  sizes_.n_middle = static_cast<int>(plan.n_middle);
  sizes_.inner_even = static_cast<int>(plan.inner_even);
  sizes_.inner_odd = static_cast<int>(plan.inner_odd);
  sizes_.outer_even = static_cast<int>(plan.outer_even);
  sizes_.outer_odd = static_cast<int>(plan.outer_odd);
  const std::vector<int> order(plan.order.begin(), plan.order.end());
  omega_ = append(omega);
  order_ = append(std::span<const int>(order));
  const auto floats = [this](const std::vector<float>& values) {
    return append(std::span<const float>(values));
  };
  even_ = floats(plan.even_table);
  odd_ = floats(plan.odd_table);
  project_even_ = floats(plan.project_even);
  project_odd_ = floats(plan.project_odd);
  turn_ = floats(plan.turn);
  transfer_a_ = floats(plan.transfer_a);
  transfer_b_ = floats(plan.transfer_b);
}

PlanTables PlanBuffer::tables(const void* base) const {
  const auto* bytes = static_cast<const unsigned char*>(base);
  const auto floats = [bytes](std::size_t at) { return reinterpret_cast<const float*>(bytes + at); };
  PlanTables t = sizes_;
  t.omega = reinterpret_cast<const double*>(bytes + omega_);
  t.order = reinterpret_cast<const int*>(bytes + order_);
  t.even_table = floats(even_);
  t.odd_table = floats(odd_);
  t.project_even = floats(project_even_);
  t.project_odd = floats(project_odd_);
  t.turn = floats(turn_);
  t.transfer_a = floats(transfer_a_);
  t.transfer_b = floats(transfer_b_);
  return t;
}

}  // namespace rope::spectral::simt
