#include "profiler/audit_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace rope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class F>
std::vector<double> column(const std::vector<const AuditRow*>& rows, F value) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const AuditRow* row : rows) values.push_back(value(*row));
  return values;
}

struct Band {
  double low, median, high;
};

Band band_of(std::vector<double>& values) {
  return {quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)};
}

ShareBin bin_of(const std::vector<const AuditRow*>& rows, std::span<const std::uint32_t> members) {
  const auto values = [&](double AuditRow::*member) {
    std::vector<double> of_members;
    for (const std::uint32_t i : members) of_members.push_back(rows[i]->*member);
    return of_members;
  };
  ShareBin bin;
  bin.pairs = std::ssize(members);
  std::vector<double> share = values(&AuditRow::share), response = values(&AuditRow::response),
                      envelope = values(&AuditRow::envelope);
  bin.share_low = share.front();
  bin.share_high = share.back();
  bin.share_median = quantile(share, 0.5);
  const Band zeta = band_of(response), t = band_of(envelope);
  bin.response_low = zeta.low;
  bin.response_median = zeta.median;
  bin.response_high = zeta.high;
  bin.envelope_low = t.low;
  bin.envelope_median = t.median;
  bin.envelope_high = t.high;
  return bin;
}

std::vector<ShareBin> share_bins(const std::vector<const AuditRow*>& rows,
                                 std::span<const std::uint32_t> order) {
  const std::size_t n = order.size(), count = std::min(kShareBins, n);
  std::vector<ShareBin> bins;
  for (std::size_t b = 0; b < count; ++b) {
    const std::size_t first = b * n / count, end = (b + 1) * n / count;
    bins.push_back(bin_of(rows, order.subspan(first, end - first)));
  }
  return bins;
}

}  // namespace

double quantile(std::span<double> values, double q) {
  if (values.empty()) return kNaN;
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double value = values[static_cast<std::size_t>(below)], rest = place - static_cast<double>(below);
  if (rest == 0 || below + 1 == std::ssize(values)) return value;
  return value + rest * (*std::min_element(values.begin() + below + 1, values.end()) - value);
}

RankedColumn::RankedColumn(std::span<const double> values)
    : order_(values.size()), doubled_rank_(values.size()) {
  std::iota(order_.begin(), order_.end(), 0U);
  std::sort(order_.begin(), order_.end(), [values](std::uint32_t a, std::uint32_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  for (std::size_t first = 0, last = 0; first < order_.size(); first = last) {
    while (last < order_.size() && values[order_[last]] == values[order_[first]]) ++last;
    for (std::size_t i = first; i < last; ++i)
      doubled_rank_[order_[i]] = static_cast<std::uint32_t>(first + 1 + last);
  }
}

double RankedColumn::correlation(const RankedColumn& other) const {
  const std::size_t n = doubled_rank_.size();
  const double middle = static_cast<double>(n + 1);  // twice the mean rank, whatever the ties
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(doubled_rank_[i]) - middle,
                 y = static_cast<double>(other.doubled_rank_[i]) - middle;
    xx += x * x;
    yy += y * y;
    xy += x * y;
  }
  return xx > 0 && yy > 0 ? std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0) : kNaN;
}

AuditStatistics audit_statistics(const std::vector<const AuditRow*>& rows, bool with_bins) {
  AuditStatistics s;
  s.rows = std::ssize(rows);
  {
    std::vector<double> ratio = column(rows, [](const AuditRow& r) { return r.response / r.envelope; });
    s.median_response_ratio = quantile(ratio, 0.5);
    ratio = column(rows, [](const AuditRow& r) { return r.floor_ratio; });
    std::erase_if(ratio, [](double x) { return std::isnan(x); });
    s.median_norm_floor_ratio = quantile(ratio, 0.5);
  }
  s.spearman_share_response = s.spearman_share_envelope = kNaN;
  s.share_varies = std::any_of(rows.begin(), rows.end(),
                               [&](const AuditRow* row) { return row->share != rows.front()->share; });
  if (!s.share_varies) return s;
  const RankedColumn share(column(rows, [](const AuditRow& r) { return r.share; }));
  s.spearman_share_response =
      share.correlation(RankedColumn(column(rows, [](const AuditRow& r) { return r.response; })));
  s.spearman_share_envelope =
      share.correlation(RankedColumn(column(rows, [](const AuditRow& r) { return r.envelope; })));
  if (with_bins) s.bins = share_bins(rows, share.order());
  return s;
}

}  // namespace rope
