#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace rope::spectral {

/// Allocates whole cache lines, so that no vector register of values straddles two.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}  // NOLINT(google-explicit-constructor): rebinding
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }
  bool operator==(const LineAllocator&) const = default;
};

using AlignedVector = std::vector<double, LineAllocator<double>>;

}  // namespace rope::spectral
