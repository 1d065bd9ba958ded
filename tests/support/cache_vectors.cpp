#include "support/cache_vectors.hpp"

#include <cmath>

namespace rope::test {
namespace {

using Complex = std::complex<double>;

std::vector<Complex> row_of(const std::vector<double>& values, std::int64_t row, std::int64_t dim) {
  std::vector<Complex> z(static_cast<std::size_t>(dim / 2));
  const double* at = values.data() + row * dim;
  for (std::int64_t n = 0; n < dim / 2; ++n) z[static_cast<std::size_t>(n)] = {at[n], at[n + dim / 2]};
  return z;
}

}  // namespace

CacheVectors cache_vectors(const TaskSpec& task, std::int64_t example, std::int64_t slot, std::int64_t head) {
  const TaskHeader& h = task.header;
  const std::int64_t place = example * std::ssize(h.layers) + slot;
  const std::int64_t kv = head / (h.query_heads / h.kv_heads);
  const double scale = 1 / std::sqrt(static_cast<double>(h.head_dim));
  CacheVectors vectors;
  for (std::int64_t i = 0; i < h.query_slots; ++i) {
    const auto query = row_of(task.query, (place * h.query_heads + head) * h.query_slots + i, h.head_dim);
    const auto first = static_cast<std::ptrdiff_t>(vectors.pairs.size());
    for (std::int64_t j = 0; j < h.key_slots; ++j) {
      const auto key = row_of(task.key, (place * h.kv_heads + kv) * h.key_slots + j, h.head_dim);
      reference::Vector z;
      for (std::size_t n = 0; n < query.size(); ++n) z.z.push_back(scale * query[n] * std::conj(key[n]));
      vectors.pairs.push_back(z);
    }
    for (std::int64_t j = 0; j + 1 < h.key_slots; j += 2) {
      reference::Vector d = vectors.pairs[static_cast<std::size_t>(first + j)];
      double start = 0;
      for (std::size_t n = 0; n < d.z.size(); ++n) {
        d.z[n] -= vectors.pairs[static_cast<std::size_t>(first + j + 1)].z[n];
        start += d.z[n].real();
      }
      if (start < 0)
        for (Complex& z : d.z) z = -z;
      vectors.margins.push_back(d);
    }
  }
  return vectors;
}

}  // namespace rope::test
