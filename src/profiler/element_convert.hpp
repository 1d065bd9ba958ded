#pragma once

#include <cstddef>

#include "profiler/activation_file.hpp"

namespace rope {

/// Rounds `count` float64 values to the element type (to nearest, ties to even; too large becomes infinite).
/// The counterpart of convert_elements, for programs that write caches.
void store_elements(ElementType type, const double* from, std::size_t count, std::byte* to);

/// Reverses the bytes of every element in place.
void swap_bytes(std::byte* data, std::size_t count, std::size_t size);

}  // namespace rope
