#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rope {

/// What an audit keeps of one pair for its quantiles and ranks (theory §8).
struct AuditRow {
  double share = 0;        ///< r_H
  double response = 0;     ///< zeta
  double envelope = 0;     ///< T
  double floor_ratio = 0;  ///< f_pos / r_H; NaN where U_H = 0
  std::uint32_t head = 0;  ///< index into ActivationSet::heads()
  std::uint32_t key = 0;   ///< PairSample's
};

/// Rows of a stream of any length in bounded memory: all of them up to `capacity`; beyond that the sketch is
/// a uniform sample of between about capacity/2 and capacity rows, from which quantiles, ranks and bins are
/// taken as from the whole.
///
/// Row number i is kept if a fixed hash of i lies below a limit, which is halved whenever the rows outgrow
/// the capacity. What is kept follows from the number of rows alone: the same rows in the same order give the
/// same sample, however they were computed, and the values have no part in it.
///
/// Error: by the Dvoretzky-Kiefer-Wolfowitz inequality (Massart's constant; sampling without replacement only
/// helps) the share of a sample of n rows below any value differs from that of the stream by more than e with
/// probability 2 exp(-2 n e^2) at most. rank_error() is the e of probability 1e-9, for all values at once: a
/// median lies between the 0.5 - e and 0.5 + e quantiles of the stream. 1.5e-3 for n = 5 million.
class PairSample {
 public:
  /// 40 bytes each: 400 MB at most.
  static constexpr std::size_t kExactPairs = 10'000'000;
  explicit PairSample(std::size_t capacity = kExactPairs);

  void add(const AuditRow& row);
  std::int64_t seen() const { return seen_; }
  std::size_t size() const { return size_; }
  bool exact() const { return static_cast<std::int64_t>(size_) == seen_; }
  /// Of the rows kept, as above; 0 where they are all.
  double rank_error() const { return exact() ? 0.0 : rank_error(size_); }
  static double rank_error(std::size_t rows);

  /// f(row) for the rows kept, in the order of the stream.
  template <class F>
  void for_each(F f) const {
    for (const std::vector<AuditRow>& chunk : chunks_)
      for (const AuditRow& row : chunk) f(row);
  }

 private:
  static constexpr std::size_t kChunk = 1 << 16;  // rows; so that growing never copies them all

  void append(const AuditRow& row);
  void thin_out();

  std::size_t capacity_, size_ = 0;
  std::int64_t seen_ = 0;
  std::uint64_t limit_ = std::uint64_t{1} << 32;  // of the keys kept
  std::vector<std::vector<AuditRow>> chunks_;
};

}  // namespace rope
