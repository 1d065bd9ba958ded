#include "profiler/attention_summary.hpp"

#include <cmath>

namespace rope {

void AttentionPart::add(const AttentionPart& other) {
  rows.insert(rows.end(), other.rows.begin(), other.rows.end());
  undefined += other.undefined;
  entropy += other.entropy;
  sink += other.sink;
  local += other.local;
  if (offset_sum.empty()) {
    offset_sum.resize(other.offset_sum.size(), 0.0);
    offset_rows.resize(other.offset_rows.size(), 0);
  }
  for (std::size_t d = 0; d < other.offset_sum.size(); ++d) {
    offset_sum[d] += other.offset_sum[d];
    offset_rows[d] += other.offset_rows[d];
  }
}

AttentionPart summarise_rows(HeadVectors& vectors, std::int64_t first, std::int64_t count,
                             const AttentionRequest& request) {
  const std::vector<std::int64_t> order = queries_by_position(vectors.slots());
  std::vector<std::int64_t> group(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    group[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  AttentionPart part;
  part.offset_sum.assign(static_cast<std::size_t>(request.offsets), 0.0);
  part.offset_rows.assign(static_cast<std::size_t>(request.offsets), 0);
  for (const AttentionRow& row : attention_rows(vectors, first, count, request)) {
    if (!row.defined) {
      ++part.undefined;
      continue;
    }
    const AttentionRow::Sums& sums = row.at_scale[0];
    AttentionPart::Row to;
    to.group = group[static_cast<std::size_t>(row.query)];
    to.keys = static_cast<double>(row.keys);
    to.keys_without_first = static_cast<double>(sums.rest.count);
    for (std::size_t i = 0; i < request.orders.size(); ++i) {
      to.log_length.push_back(log_effective_length(sums.all, request.orders, i));
      to.without_first.push_back(log_effective_length(sums.rest, request.orders, i));
    }
    to.log_2 = log_effective_length_2(sums.all);
    to.log_2_without_first = log_effective_length_2(sums.rest);
    part.entropy += log_effective_length_1(sums.all);
    part.sink += row.first_weight;
    part.local += row.local_weight;
    for (std::size_t d = 0; d < row.offset_weight.size(); ++d) {
      if (std::isnan(row.offset_weight[d])) continue;
      part.offset_sum[d] += row.offset_weight[d];
      ++part.offset_rows[d];
    }
    part.rows.push_back(std::move(to));
  }
  return part;
}

void AttentionMeans::add(const AttentionPart& example) {
  rows_ += static_cast<std::int64_t>(example.rows.size());
  undefined_ += example.undefined;
  if (example.rows.empty()) return;
  for (const AttentionPart::Row& row : example.rows) {
    Group& group = task_groups_[row.group];
    group.log_length.resize(orders_);
    group.without_first.resize(orders_);
    ++group.examples;
    group.keys.add(row.keys);
    if (row.keys_without_first > 0) group.keys_without_first.add(row.keys_without_first);
    group.log_2.add(row.log_2);
    group.log_2_without_first.add(row.log_2_without_first);
    for (std::size_t i = 0; i < orders_; ++i) {
      group.log_length[i].add(row.log_length[i]);
      group.without_first[i].add(row.without_first[i]);
    }
  }
  const auto rows = static_cast<double>(example.rows.size());
  task_.entropy.add(example.entropy / rows);
  task_.sink.add(example.sink / rows);
  task_.local.add(example.local / rows);
  task_.offset.resize(example.offset_sum.size());
  offset_rows_.resize(example.offset_sum.size(), 0);
  for (std::size_t d = 0; d < example.offset_sum.size(); ++d) {
    offset_rows_[d] += example.offset_rows[d];
    if (example.offset_rows[d] > 0)
      task_.offset[d].add(example.offset_sum[d] / static_cast<double>(example.offset_rows[d]));
  }
}

void AttentionMeans::fold(Mean& task, Mean& all) {
  all.add(task.value());  // NaN where there was none, which Mean leaves out
  task = Mean();
}

void AttentionMeans::end_task() {
  for (auto& [index, task] : task_groups_) {
    Group& all = groups_[index];
    all.log_length.resize(orders_);
    all.without_first.resize(orders_);
    all.examples += task.examples;
    fold(task.keys, all.keys);
    fold(task.keys_without_first, all.keys_without_first);
    fold(task.log_2, all.log_2);
    fold(task.log_2_without_first, all.log_2_without_first);
    for (std::size_t i = 0; i < orders_; ++i) {
      fold(task.log_length[i], all.log_length[i]);
      fold(task.without_first[i], all.without_first[i]);
    }
  }
  task_groups_.clear();
  fold(task_.entropy, all_.entropy);
  fold(task_.sink, all_.sink);
  fold(task_.local, all_.local);
  all_.offset.resize(task_.offset.size());
  for (std::size_t d = 0; d < task_.offset.size(); ++d) fold(task_.offset[d], all_.offset[d]);
}

HeadGrowth AttentionMeans::fit(const LengthOptions& options, bool without_first) const {
  std::vector<double> x, y;
  for (const auto& [index, group] : groups_) {
    x.push_back(std::log((without_first ? group.keys_without_first : group.keys).value()));
    y.push_back((without_first ? group.log_2_without_first : group.log_2).value());
  }
  HeadGrowth growth;
  growth.fit = spectral::fit_growth(x, y);
  growth.growth = spectral::growth_class(growth.fit, options.retrieval_below, options.aggregation_above);
  return growth;
}

std::int64_t AttentionMeans::best_offset() const {
  std::int64_t best = -1;
  for (std::size_t d = 0; d < all_.offset.size(); ++d) {
    if (2 * offset_rows_[d] < rows_ || all_.offset[d].count == 0) continue;
    if (best < 0 || all_.offset[d].value() > all_.offset[static_cast<std::size_t>(best)].value())
      best = static_cast<std::int64_t>(d);
  }
  return best;
}

HeadAttention AttentionMeans::result(const LengthOptions& options) const {
  HeadAttention head;
  head.rows = rows_;
  head.undefined = undefined_;
  head.groups = static_cast<std::int64_t>(groups_.size());
  head.shortest = head.longest = head.effective_length = head.effective_length_without_first = Mean().value();
  if (!groups_.empty()) {
    const Group& last = groups_.rbegin()->second;
    head.shortest = groups_.begin()->second.keys.value();
    head.longest = last.keys.value();
    head.effective_length = std::exp(last.log_2.value());
    head.effective_length_without_first = std::exp(last.log_2_without_first.value());
  }
  head.entropy = all_.entropy.value();
  head.sink = all_.sink.value();
  head.local = all_.local.value();
  head.previous = all_.offset.size() > 1 ? all_.offset[1].value() : Mean().value();
  head.offset = best_offset();
  head.slash = head.offset < 0 ? Mean().value() : all_.offset[static_cast<std::size_t>(head.offset)].value();
  head.growth = fit(options, false);
  head.without_first = fit(options, true);
  return head;
}

void AttentionMeans::list_groups(int layer, int head, std::vector<LengthGroupRow>& rows) const {
  for (const auto& [index, group] : groups_)
    for (std::size_t i = 0; i < orders_; ++i) {
      LengthGroupRow row;
      row.layer = layer;
      row.head = head;
      row.group = static_cast<int>(index);
      row.examples = group.examples;
      row.keys = group.keys.value();
      row.keys_without_first = group.keys_without_first.value();
      row.order = i;
      row.log_length = group.log_length[i].value();
      row.log_length_without_first = group.without_first[i].value();
      rows.push_back(row);
    }
}

}  // namespace rope
