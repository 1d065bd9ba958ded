#pragma once

#include <cstdint>
#include <random>
#include <string_view>

namespace rope::detail {

/// Seed of the stream of random numbers that belongs to `name`: streams of different names are unrelated.
inline std::uint64_t stream_seed(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::uint64_t x = seed + 0x9e3779b97f4a7c15u;  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31) ^ hash;
}

/// Uniform indexes below n, 1 <= n < 2^32, from the two halves of each draw, without bias: a product whose
/// low half falls below 2^32 mod n is rejected. Twice as fast as Random::below.
class IndexSource {
 public:
  IndexSource(std::uint64_t seed, std::size_t n)
      : generator_(seed), n_(n), reject_below_((std::uint64_t{1} << 32) % n) {}
  std::size_t next() {
    for (;;) {
      const std::uint64_t product = half() * n_;
      if ((product & 0xffffffffu) >= reject_below_) return product >> 32;
    }
  }
  /// The same for another n.
  std::size_t below(std::size_t n) {
    for (;;) {
      const std::uint64_t product = half() * n, low = product & 0xffffffffu;
      if (low >= n || low >= (std::uint64_t{1} << 32) % n) return product >> 32;
    }
  }

 private:
  std::uint64_t half() {
    if (left_ == 0) {
      bits_ = generator_();
      left_ = 2;
    }
    const std::uint64_t low = bits_ & 0xffffffffu;
    bits_ >>= 32;
    --left_;
    return low;
  }

  std::mt19937_64 generator_;
  std::uint64_t n_, reject_below_, bits_ = 0;
  int left_ = 0;
};

}  // namespace rope::detail
