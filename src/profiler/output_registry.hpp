#pragma once

#include <string>

namespace rope::detail {

/// Names of files that a signal handler must remove. Fixed storage, so that the handler may read it.
/// Returns a slot for forget_partial, or -1 when the name is too long or all slots are taken.
int remember_partial(const std::string& path) noexcept;
void forget_partial(int slot) noexcept;
/// Async-signal-safe.
void unlink_all_partials() noexcept;

}  // namespace rope::detail
