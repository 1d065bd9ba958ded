#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

// Kernels whose bodies run on a GPU and, in tests, on the host ("phased block kernels").
//
// A kernel is a struct with
//   Args            plain pointers and sizes, passed by value
//   kThreads        threads of a block
//   kBlocksPerSm    blocks that shall fit a multiprocessor at once (bounds the registers)
//   Shared<Block>   members of type Block::Array<T>, and lay_out(arena, args), which takes their room
//   run(block, shared, args)
// Work happens only in block.phase(f): on the GPU f(threadIdx.x) and then a barrier of the block, on the host
// a loop over the threads. What lives across phases is Block::PerThread<T>. Loops and ifs around a phase
// depend only on Args and the block's index, so no thread can miss a barrier. Shared memory is touched only
// inside a phase, and every element of global memory has one thread that writes it, through block.store.

#if defined(__CUDACC__)
#define ROPE_HD __host__ __device__ __forceinline__
#else
#define ROPE_HD inline
#endif

namespace rope::spectral::simt {

/// Four neighbouring floats, loaded at once.
struct alignas(16) Float4 {
  float x, y, z, w;
};

/// Rounded once, on every machine: nothing is contracted behind our back.
ROPE_HD float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
ROPE_HD double fma(double a, double b, double c) { return ::fma(a, b, c); }

/// 2^x, relative error below 2^-21; 0 where the result is subnormal.
ROPE_HD float exp2_fast(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  const float y = ::exp2f(x);
  return y < 0x1p-126F ? 0.0F : y;
#endif
}

/// 2^e for -1022 <= e <= 1023, exact.
ROPE_HD double power_of_two(int e) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(e + 1023) << 52);
#else
  return std::ldexp(1.0, e);
#endif
}

/// Array in shared memory as the device sees it.
template <class T>
struct DeviceArray {
  T* data = nullptr;
  ROPE_HD T& operator[](int i) const { return data[i]; }
  /// Elements i ... i + 3, i a multiple of 4.
  ROPE_HD Float4 load4(int i) const { return *reinterpret_cast<const Float4*>(data + i); }
};

/// A block on the device. (Host and device by declaration, so that templates for both compile quietly; the
/// host never runs it.)
class DeviceBlock {
 public:
  template <class T>
  using Array = DeviceArray<T>;

  template <class T>
  class PerThread {
   public:
    ROPE_HD T& operator[](int) { return value_; }

   private:
    T value_;
  };

  ROPE_HD int x() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(blockIdx.x);
#else
    return 0;
#endif
  }
  ROPE_HD int y() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(blockIdx.y);
#else
    return 0;
#endif
  }

  template <class F>
  ROPE_HD void phase(F&& f) {
#if defined(__CUDA_ARCH__)
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
#else
    static_cast<void>(f);
#endif
  }

  /// The only way to write to global memory.
  template <class T>
  ROPE_HD void store(T* to, T value) {
    *to = value;
  }

  /// The same global address for the whole warp, through the read-only cache.
  ROPE_HD static Float4 load4(const float* from) {
#if defined(__CUDA_ARCH__)
    const float4 v = __ldg(reinterpret_cast<const float4*>(from));
    return {v.x, v.y, v.z, v.w};
#else
    return {from[0], from[1], from[2], from[3]};
#endif
  }
};

/// Hands out room in a block's shared memory, every array on a boundary of 16 bytes. Without memory it only
/// counts.
class DeviceArena {
 public:
  ROPE_HD explicit DeviceArena(unsigned char* memory = nullptr) : memory_(memory) {}
  template <class T>
  ROPE_HD void take(DeviceArray<T>& array, int count) {
    array.data = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
  }
  ROPE_HD std::size_t used() const { return used_; }

 private:
  unsigned char* memory_;
  std::size_t used_ = 0;
};

/// Bytes of shared memory that a block of the kernel needs.
template <class Kernel>
std::size_t shared_bytes(const typename Kernel::Args& args) {
  DeviceArena arena;
  typename Kernel::template Shared<DeviceBlock> shared;
  shared.lay_out(arena, args);
  return arena.used();
}

#if defined(__CUDACC__)
/// The kernel as the device starts it.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerSm)
    run_kernel(const __grid_constant__ typename Kernel::Args args) {
  extern __shared__ __align__(16) unsigned char memory[];
  DeviceArena arena(memory);
  typename Kernel::template Shared<DeviceBlock> shared;
  shared.lay_out(arena, args);
  DeviceBlock block;
  Kernel::run(block, shared, args);
}
#endif

}  // namespace rope::spectral::simt
