#pragma once

#include <functional>
#include <string>

namespace rope {

/// Runs `read`, the opening of an HDF5 file, so that a damaged file cannot take the program down: first in a
/// forked child, then, when that has ended in good order (well or by an exception), here, by the same calls
/// from the same state of the heap. Throws UserError when the child crashes or does not end. Memory is
/// limited meanwhile to what a file of this size can need.
///
/// Why: HDF5 1.10 trusts the indexes and lengths of variable-length texts and some type descriptions. Of
/// 12,000 caches with one to four damaged bytes, 1.3 per cent crashed inside the library or had it fill
/// gigabytes, all of them while opening and reading attributes and ids, none while reading positions and
/// vectors.
void read_guarded(const std::string& path, const std::function<void()>& read);

}  // namespace rope
