// Exact conversion of stored elements to float64, for every instruction set that the machine may have.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "profiler/element_convert.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: the headers below are compiled once per instruction set.
#include <hwy/highway.h>

#include <cstring>

#include "profiler/element_convert.hpp"

HWY_BEFORE_NAMESPACE();
namespace rope::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using Half = hn::Rebind<float, Wide>;     // as many floats as a vector holds doubles
using Bits = hn::RebindToUnsigned<Half>;  // their bits
using Bits16 = hn::Rebind<std::uint16_t, Wide>;

/// float32 of float16 bits (widened to 32). Integer and float arithmetic only, so every target gives the same
/// bits: the exponent is re-biased, infinities and NaN get the largest exponent, subnormals are normalised by
/// one exact subtraction.
HWY_INLINE hn::Vec<Half> float_of_half(hn::Vec<Bits> bits) {
  const Bits u;
  const Half f;
  const auto magnitude = hn::And(bits, hn::Set(u, 0x7fffu));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u, 0x8000u)));
  const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(u, 112u << 23));
  const auto special = hn::Add(normal, hn::Set(u, 112u << 23));
  const auto tiny =
      hn::Sub(hn::BitCast(f, hn::Add(normal, hn::Set(u, 1u << 23))), hn::BitCast(f, hn::Set(u, 113u << 23)));
  auto result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u, 0x7bffu)), special, normal);
  result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u, 0x0400u)), hn::BitCast(u, tiny), result);
  return hn::BitCast(f, hn::Or(result, sign));
}

/// The same by the processor's own conversion, where there is one; exact, so the values are equal.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
HWY_INLINE hn::Vec<Half> widen_half(hn::Vec<Bits16> bits) {
  return hn::PromoteTo(Half(), hn::BitCast(hn::Rebind<hwy::float16_t, Wide>(), bits));
}
#else
HWY_INLINE hn::Vec<Half> widen_half(hn::Vec<Bits16> bits) {
  return float_of_half(hn::PromoteTo(Bits(), bits));
}
#endif

HWY_INLINE hn::Vec<Half> float_of_bfloat(hn::Vec<Bits> bits) {
  return hn::BitCast(Half(), hn::ShiftLeft<16>(bits));
}

/// One pass over 16-bit elements; the last partial vector goes through a small copy.
template <class Widen>
HWY_INLINE void convert16(const std::byte* from, std::size_t count, double* to, Widen widen) {
  const Wide d;
  const Bits16 s;
  const std::size_t lanes = hn::Lanes(d);
  const auto* source = reinterpret_cast<const std::uint16_t*>(from);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, widen(hn::LoadU(s, source + i))), d, to + i);
  if (i == count) return;
  HWY_ALIGN std::uint16_t rest[HWY_MAX_BYTES] = {};
  HWY_ALIGN double values[HWY_MAX_BYTES];
  std::memcpy(rest, source + i, (count - i) * sizeof(std::uint16_t));
  hn::Store(hn::PromoteTo(d, widen(hn::Load(s, rest))), d, values);
  std::memcpy(to + i, values, (count - i) * sizeof(double));
}

void convert_half(const std::byte* from, std::size_t count, double* to) {
  convert16(from, count, to, [](hn::Vec<Bits16> bits) HWY_ATTR { return widen_half(bits); });
}

void convert_bfloat(const std::byte* from, std::size_t count, double* to) {
  convert16(from, count, to,
            [](hn::Vec<Bits16> bits) HWY_ATTR { return float_of_bfloat(hn::PromoteTo(Bits(), bits)); });
}

}  // namespace rope::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rope {

HWY_EXPORT(convert_half);
HWY_EXPORT(convert_bfloat);

void convert_elements(ElementType type, const std::byte* from, std::size_t count, double* to) {
  switch (type) {
    case ElementType::kFloat16:
      HWY_DYNAMIC_DISPATCH(convert_half)(from, count, to);
      break;
    case ElementType::kBfloat16:
      HWY_DYNAMIC_DISPATCH(convert_bfloat)(from, count, to);
      break;
    case ElementType::kFloat32:
      for (std::size_t i = 0; i < count; ++i) {
        float value = 0;
        std::memcpy(&value, from + i * sizeof(float), sizeof(float));
        to[i] = value;
      }
      break;
    case ElementType::kFloat64:
      if (count > 0) std::memcpy(to, from, count * sizeof(double));
      break;
  }
}

std::size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
      return 8;
    default:
      return 2;
  }
}

double rounding_unit(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return 0x1p-11;
    case ElementType::kBfloat16:
      return 0x1p-8;
    case ElementType::kFloat32:
      return 0x1p-24;
    case ElementType::kFloat64:
      break;
  }
  return 0x1p-53;
}

const char* element_name(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kBfloat16:
      return "bfloat16";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      break;
  }
  return "float64";
}

}  // namespace rope
#endif  // HWY_ONCE
