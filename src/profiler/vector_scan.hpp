#pragma once

#include <cstdint>

#include "profiler/activation_file.hpp"

namespace rope {

/// What a pass over one task's vectors finds in its used token slots.
struct VectorScan {
  struct Side {
    std::int64_t slots = 0;       ///< used token slots, over all examples
    std::int64_t vectors = 0;     ///< slots x layers x heads
    std::int64_t zero = 0;        ///< vectors of zero norm: "undefined" to every score
    std::int64_t non_finite = 0;  ///< vectors with an infinity or NaN
  };
  Side query, key;
};

/// Reads every vector of a task once, in blocks of at most 16 MiB (or one head). Slots marked unused are not
/// looked at, unless the task's positions break the format: then all are. Throws UserError where the vectors
/// cannot be read.
VectorScan scan_vectors(const ActivationFile& file, const TaskHeader& task);

}  // namespace rope
