#include "spectral/virtual_length.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "spectral/phase.hpp"

namespace rope::spectral {
namespace {

constexpr std::size_t kOffsets = 128;  // half a block: buffers of 4 rows stay in the first cache

}  // namespace

VirtualLengthPlan::VirtualLengthPlan(std::span<const double> omega, std::span<const char> high)
    : omega_(omega.begin(), omega.end()) {
  if (high.size() != omega.size()) throw std::logic_error("VirtualLengthPlan: one mark per frequency");
  for (std::size_t n = 0; n < omega.size(); ++n) row_[high[n] != 0 ? 1 : 0].push_back(n);
  std::vector<double> cos, sin;
  for (int band : {0, 1}) {
    const std::size_t rows = row_[band].size();
    cos.resize(rows * kOffsets);
    sin.resize(rows * kOffsets);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t t = 0; t < kOffsets; ++t) {
        const Phase phase = phase_at(static_cast<double>(t) + 0.5, omega_[row_[band][r]]);
        cos[r * kOffsets + t] = phase.cos;
        sin[r * kOffsets + t] = phase.sin;
      }
    cos_[band].pack(cos.data(), kOffsets, rows, kOffsets);
    sin_[band].pack(sin.data(), kOffsets, rows, kOffsets);
  }
}

/// One call of virtual_lengths.
class VirtualLengthSums {
 public:
  VirtualLengthSums(const VirtualLengthPlan& plan, const CoefficientBatch& batch, const LengthOrders& orders,
                    double softcap)
      : plan_(plan),
        batch_(batch),
        orders_(orders),
        softcap_(softcap),
        all_(batch.n_pairs),
        slow_(plan.row_[1].empty() ? 0 : batch.n_pairs) {
    for (int band : {0, 1})
      for (std::vector<double>* u : {&re_[band], &im_[band]})
        u->resize(plan.row_[band].size() * kProductRows);
    for (std::vector<double>* row : {&even_, &odd_}) row->resize(kProductRows * kOffsets);
    up_.resize(kOffsets);
    down_.resize(kOffsets);
  }

  void add_window(std::int64_t window) {
    for (std::int64_t first = 0; first < window; first += 2 * static_cast<std::int64_t>(kOffsets)) {
      const auto left = static_cast<std::size_t>(
          std::min<std::int64_t>(window - first, 2 * static_cast<std::int64_t>(kOffsets)));
      const std::size_t down = (left + 1) / 2;  // distances below the centre
      const double centre = static_cast<double>(first) + static_cast<double>(down) - 0.5;
      phase_.clear();
      for (const double omega : plan_.omega_) phase_.push_back(phase_at(centre, omega));
      for (std::size_t lane = 0; lane < batch_.n_pairs; lane += kProductRows)
        add_block(lane, down, left - down);
    }
  }

  VirtualLengths result() const {
    VirtualLengths lengths;
    for (std::size_t i = 0; i < orders_.size(); ++i) {
      lengths.all.push_back(values(all_, i));
      lengths.slow.push_back(slow_.empty() ? lengths.all.back() : values(slow_, i));
    }
    return lengths;
  }

 private:
  std::vector<double> values(const std::vector<WeightSums>& sums, std::size_t order) const {
    std::vector<double> result;
    for (const WeightSums& lane : sums)
      result.push_back(std::exp(log_effective_length(lane, orders_, order)));
    return result;
  }

  // The lanes' coefficients, turned to the centre of the block. Im u changes its sign: S has -Im u sin.
  void turn(std::size_t lane) {
    for (int band : {0, 1})
      for (std::size_t r = 0; r < plan_.row_[band].size(); ++r) {
        const std::size_t n = plan_.row_[band][r], from = n * batch_.stride + lane;
        for (std::size_t i = 0; i < kProductRows; ++i) {
          const double re = batch_.re[from + i], im = batch_.im[from + i];
          re_[band][r * kProductRows + i] = re * phase_[n].cos - im * phase_[n].sin;
          im_[band][r * kProductRows + i] = -(re * phase_[n].sin + im * phase_[n].cos);
        }
      }
  }

  void add_block(std::size_t lane, std::size_t down, std::size_t up) {
    turn(lane);
    for (int band : {0, 1}) {
      if (band == 1 && plan_.row_[1].empty()) return;
      multiply_rows(re_[band].data(), kProductRows, plan_.cos_[band], down, band == 1, even_.data(),
                    kOffsets);
      multiply_rows(im_[band].data(), kProductRows, plan_.sin_[band], down, band == 1, odd_.data(), kOffsets);
      const bool complete = band == 1 || plan_.row_[1].empty();
      for (std::size_t i = 0; i < kProductRows && lane + i < batch_.n_pairs; ++i) {
        WeightSums& to = complete ? all_[lane + i] : slow_[lane + i];
        const double constant = batch_.constant[lane + i] + (complete ? 0.0 : stopped(lane + i));
        combine_mirrored(constant, even_.data() + i * kOffsets, odd_.data() + i * kOffsets, down, up_.data(),
                         down_.data());
        add(to, std::span(up_).first(up));
        add(to, std::span(down_).first(down));
      }
    }
  }

  void add(WeightSums& to, std::span<double> logits) {
    if (softcap_ > 0) cap_logits(logits, softcap_);
    to.add(sum_weights(logits, orders_), orders_);
  }

  // What the pairs of H add to every score once they are stopped.
  double stopped(std::size_t lane) const {
    double sum = 0;
    for (const std::size_t n : plan_.row_[1]) sum += batch_.re[n * batch_.stride + lane];
    return sum;
  }

  const VirtualLengthPlan& plan_;
  const CoefficientBatch& batch_;
  const LengthOrders& orders_;
  double softcap_;
  std::vector<WeightSums> all_, slow_;
  std::vector<Phase> phase_;
  std::vector<double> re_[2], im_[2];  // [frequencies][kProductRows]
  std::vector<double> even_, odd_;     // [kProductRows][kOffsets]
  std::vector<double> up_, down_;
};

VirtualLengths virtual_lengths(const VirtualLengthPlan& plan, const CoefficientBatch& batch,
                               std::int64_t window, const LengthOrders& orders, double softcap) {
  if (batch.n_freq != plan.n_freq()) throw std::logic_error("virtual_lengths: another grid");
  if (window < 1) throw std::logic_error("virtual_lengths: a window has a distance at least");
  VirtualLengthSums sums(plan, batch, orders, softcap);
  sums.add_window(window);
  return sums.result();
}

}  // namespace rope::spectral
