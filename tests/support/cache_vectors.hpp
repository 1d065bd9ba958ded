#pragma once

#include <vector>

#include "reference/direct_sums.hpp"
#include "support/cache_writer.hpp"

namespace rope::test {

/// Pairs z and default triplets' margins d of one head, straight from the vectors of a test cache by theory
/// §§1 and 3: pre-rotation vectors, fully rotary, softmax scale 1/sqrt(head_dim), every slot used. Margins
/// are turned so that D(0) > 0.
struct CacheVectors {
  std::vector<reference::Vector> pairs, margins;
};
/// slot: index into the task's layers.
CacheVectors cache_vectors(const TaskSpec& task, std::int64_t example, std::int64_t slot, std::int64_t head);

}  // namespace rope::test
