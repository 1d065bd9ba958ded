#pragma once

#include <iosfwd>

#include "profiler/table_format.hpp"

namespace rope::detail {

/// NPY format 1.0 (2.0 where the header is long): a structured array of shape (rows,), little-endian.
void write_npy(const TableSource& table, std::ostream& out);

}  // namespace rope::detail
