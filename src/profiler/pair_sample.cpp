#include "profiler/pair_sample.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace rope {
namespace {

/// splitmix64, upper half: numbers one apart give unrelated keys.
std::uint32_t key_of(std::uint64_t number) {
  std::uint64_t x = (number + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>((x ^ (x >> 31)) >> 32);
}

}  // namespace

PairSample::PairSample(std::size_t capacity) : capacity_(capacity) {
  if (capacity == 0) throw std::logic_error("PairSample: no capacity");
}

double PairSample::rank_error(std::size_t rows) {
  return rows == 0 ? 1.0 : std::min(1.0, std::sqrt(std::log(2e9) / (2.0 * static_cast<double>(rows))));
}

void PairSample::add(const AuditRow& row) {
  AuditRow kept = row;
  kept.key = key_of(static_cast<std::uint64_t>(seen_++));
  if (kept.key >= limit_) return;
  append(kept);
  while (size_ > capacity_) thin_out();
}

void PairSample::append(const AuditRow& row) {
  if (chunks_.empty() || chunks_.back().size() == kChunk) {
    chunks_.emplace_back();
    chunks_.back().reserve(std::min(kChunk, capacity_ + 1));
  }
  chunks_.back().push_back(row);
  ++size_;
}

void PairSample::thin_out() {
  limit_ /= 2;
  std::vector<std::vector<AuditRow>> old = std::move(chunks_);
  chunks_.clear();
  size_ = 0;
  for (std::vector<AuditRow>& chunk : old) {
    for (const AuditRow& row : chunk)
      if (row.key < limit_) append(row);
    std::vector<AuditRow>().swap(chunk);
  }
}

}  // namespace rope
