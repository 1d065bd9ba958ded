#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "profiler/attention_rows.hpp"
#include "profiler/length_run.hpp"
#include "profiler/mean.hpp"

namespace rope {

/// Rows of some queries of a head in one example, boiled down to what their means need.
struct AttentionPart {
  struct Row {
    std::int64_t group = 0;
    double keys = 0, keys_without_first = 0;
    std::vector<double> log_length, without_first;  ///< [orders]; NaN where there is none
    double log_2 = 0, log_2_without_first = 0;
  };
  std::vector<Row> rows;  ///< defined ones
  std::int64_t undefined = 0;
  double entropy = 0, sink = 0, local = 0;  ///< sums over `rows`
  std::vector<double> offset_sum;           ///< [offsets]
  std::vector<std::int64_t> offset_rows;    ///< [offsets] rows that have such a key

  void add(const AttentionPart& other);
};

/// Queries [first, first + count) of a head; the first token and the offsets as in `request`.
AttentionPart summarise_rows(HeadVectors& vectors, std::int64_t first, std::int64_t count,
                             const AttentionRequest& request);

/// Means of one head: over examples in the order of add(), at the end of each task over tasks.
class AttentionMeans {
 public:
  explicit AttentionMeans(std::size_t orders) : orders_(orders) {}
  /// All rows of an example.
  void add(const AttentionPart& example);
  void end_task();
  bool empty() const { return rows_ + undefined_ == 0; }

  HeadAttention result(const LengthOptions& options) const;
  /// Appends a row per group and order.
  void list_groups(int layer, int head, std::vector<LengthGroupRow>& rows) const;

 private:
  struct Group {
    Mean keys, keys_without_first, log_2, log_2_without_first;
    std::vector<Mean> log_length, without_first;  // [orders]
    std::int64_t examples = 0;
  };
  struct Scores {
    Mean entropy, sink, local;
    std::vector<Mean> offset;
  };
  static void fold(Mean& task, Mean& all);
  HeadGrowth fit(const LengthOptions& options, bool without_first) const;
  std::int64_t best_offset() const;

  std::size_t orders_;
  std::map<std::int64_t, Group> task_groups_, groups_;
  Scores task_, all_;
  std::vector<std::int64_t> offset_rows_;
  std::int64_t rows_ = 0, undefined_ = 0;
};

}  // namespace rope
