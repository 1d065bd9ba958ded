// Rounding to element types and byte order; reading them is in element_convert.cpp.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "profiler/element_convert.hpp"

namespace rope {
namespace {

/// Bits of a small IEEE float with `mantissa` stored bits and `exponent` exponent bits. Rounds once, from
/// float64: going through float32 would round twice.
std::uint16_t round_to_bits(double value, int exponent, int mantissa) {
  const int bias = (1 << (exponent - 1)) - 1;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000u : 0u);
  const auto infinity = static_cast<std::uint16_t>(((1u << exponent) - 1u) << mantissa);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1u << (mantissa - 1)));
  const double size = std::fabs(value);
  if (size == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  int e = 0;
  std::frexp(size, &e);  // size in [2^(e-1), 2^e)
  const int lowest = 1 - bias;
  const int power = std::max(e - 1, lowest) - mantissa;  // of the last stored place
  const double steps = std::nearbyint(std::ldexp(size, -power));
  // A carry into the exponent falls out of the sum; so does the step from subnormal to normal.
  const std::int64_t field = std::max(e - 1, lowest) - lowest;
  const std::int64_t bits = (field << mantissa) + static_cast<std::int64_t>(steps);
  if (bits >= infinity) return sign | infinity;
  return static_cast<std::uint16_t>(sign | bits);
}

template <class T>
void put(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

void store_elements(ElementType type, const double* from, std::size_t count, std::byte* to) {
  switch (type) {
    case ElementType::kFloat16:
      for (std::size_t i = 0; i < count; ++i) put(to, i, round_to_bits(from[i], 5, 10));
      break;
    case ElementType::kBfloat16:
      for (std::size_t i = 0; i < count; ++i) put(to, i, round_to_bits(from[i], 8, 7));
      break;
    case ElementType::kFloat32:
      for (std::size_t i = 0; i < count; ++i) put(to, i, static_cast<float>(from[i]));
      break;
    case ElementType::kFloat64:
      if (count > 0) std::memcpy(to, from, count * sizeof(double));
      break;
  }
}

void swap_bytes(std::byte* data, std::size_t count, std::size_t size) {
  const auto swap_all = [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, data + i * sizeof(T), sizeof(T));
      if constexpr (sizeof(T) == 2) value = __builtin_bswap16(value);
      if constexpr (sizeof(T) == 4) value = __builtin_bswap32(value);
      if constexpr (sizeof(T) == 8) value = __builtin_bswap64(value);
      std::memcpy(data + i * sizeof(T), &value, sizeof(T));
    }
  };
  if (size == 2) swap_all(std::uint16_t{});
  if (size == 4) swap_all(std::uint32_t{});
  if (size == 8) swap_all(std::uint64_t{});
}

}  // namespace rope
