// Vector functions shared by the kernels; included once per SIMD target, after highway.h.
#if defined(ROPE_SPECTRAL_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPE_SPECTRAL_VECTOR_MATH_INL
#undef ROPE_SPECTRAL_VECTOR_MATH_INL
#else
#define ROPE_SPECTRAL_VECTOR_MATH_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rope::spectral {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// e^x for x <= 0 (NaN gives a number of no meaning), relative error below 2e-15; below -708 the value stays
/// at e^-708, which no sum of weights that holds a 1 can see. x = k ln 2 + r, |r| <= ln 2 / 2, and a
/// polynomial of degree 10 in r, the interpolation of (e^r - 1 - r) / r^2 at Chebyshev nodes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOfNonPositive(D d, V x) {
  const hn::Rebind<std::int64_t, D> di;
  x = hn::Max(x, hn::Set(d, -708.0));
  // Adding 1.5 * 2^52 rounds to a whole number and leaves it in the low bits.
  const V magic = hn::Set(d, 6755399441055744.0);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.4426950408889634), magic);
  const V k = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(k, hn::Set(d, 0x1.62e42fefa3800p-1), x);  // ln 2 in two parts, k * the first is exact
  r = hn::NegMulAdd(k, hn::Set(d, 0x1.ef35793c76730p-45), r);
  V p = hn::Set(d, 0x1.28803926c8ea8p-22);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.72c720b2e07bfp-19));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.a019c9ab213aap-16));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.a019adabfb6abp-13));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.6c16c1738ecf7p-10));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.1111111c45d5bp-7));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5555555554cb8p-5));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5555555553b7dp-3));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5));
  const V one = hn::Set(d, 1.0);
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, one));
  const auto exponent = hn::ShiftLeft<52>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

/// erfc(x), absolute error below 1e-15, relative below 1e-14 while it is normal; NaN gives a number of no
/// meaning. With y = |x|: (1 + 2 y) e^{y^2} erfc y as a polynomial of degree 22 in (y - 4) / (y + 4), which
/// is right to 3e-16 on all of y >= 0 (a Chebyshev fit in 50 digits).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erfc(D d, V x) {
  constexpr double kPolynomial[] = {
      0x1.c2e324cb33788p-30,  -0x1.dff032d300315p-28, -0x1.1f8f10ba20f79p-26, 0x1.8f0920c7d5e27p-24,
      0x1.355884b1ca9fdp-24,  -0x1.ae86b29807edbp-21, 0x1.3ebb0291516c9p-22,  0x1.7dcf4dcc6199dp-18,
      -0x1.789e79eb906c5p-17, -0x1.9928561ea5afcp-16, 0x1.3be0e09412ec0p-13,  -0x1.a1e16f900a258p-13,
      -0x1.8d4aa41628fedp-11, 0x1.49c676f414b52p-8,   -0x1.09623878c700ep-6,  0x1.3079ede17a234p-5,
      -0x1.0fb06dfe8afa8p-4,  0x1.7fee004ef1101p-4,   -0x1.9ddb23c3e6861p-4,  0x1.16ecefcf9cb1ep-4,
      0x1.f7f5df66fd40dp-7,   -0x1.1df1ad154a1c8p-3,  0x1.3ba5916e9fd7fp0};
  const V one = hn::Set(d, 1.0), four = hn::Set(d, 4.0);
  const V y = hn::Min(hn::Abs(x), hn::Set(d, 27.0));  // erfc 27 is below every sum's last digit
  const V s = hn::Div(hn::Sub(y, four), hn::Add(y, four));
  V p = hn::Set(d, kPolynomial[0]);
  for (std::size_t i = 1; i < std::size(kPolynomial); ++i) p = hn::MulAdd(p, s, hn::Set(d, kPolynomial[i]));
  const V square = hn::Mul(y, y), rest = hn::MulSub(y, y, square);  // y^2 in two parts
  const V e = ExpOfNonPositive(d, hn::Neg(square));
  p = hn::Div(hn::Mul(p, hn::NegMulAdd(rest, e, e)), hn::Add(hn::Add(y, y), one));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0), p), p);
}

/// cap * tanh(x / cap), absolute error below 1e-15 cap.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SoftCap(D d, V x, double cap) {
  const V one = hn::Set(d, 1.0);
  const V e = ExpOfNonPositive(d, hn::Mul(hn::Abs(x), hn::Set(d, -2.0 / cap)));
  const V tanh = hn::Div(hn::Sub(one, e), hn::Add(one, e));
  return hn::CopySign(hn::Mul(hn::Set(d, cap), tanh), x);
}

/// Narrow formats: bits of the fraction, smallest normal number, what makes adding round to the steps of
/// subnormals (the last bit of its 53 is one step), and where infinity begins.
struct Bfloat16Format {  // subnormals in steps of 2^-133
  static constexpr int kFraction = 7;
  static constexpr double kSmallest = 0x1p-126, kStep = 1.5 * 0x1p-81, kInfinite = 0x1p128;
};
struct Float16Format {  // subnormals in steps of 2^-24
  static constexpr int kFraction = 10;
  static constexpr double kSmallest = 0x1p-14, kStep = 1.5 * 0x1p28, kInfinite = 0x1p16;
};

/// The value of x in a narrow format, rounded once to nearest even; +-infinity where it overflows after
/// rounding.
template <class Format, class D, class V = hn::Vec<D>>
HWY_INLINE V RoundTo(D d, V x) {
  const hn::Rebind<std::uint64_t, D> du;
  constexpr int kDropped = 52 - Format::kFraction;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(du, std::uint64_t{1}));
  const auto bias = hn::Add(hn::Set(du, (std::uint64_t{1} << (kDropped - 1)) - 1), odd);
  const auto kept = hn::And(hn::Add(bits, bias), hn::Set(du, ~((std::uint64_t{1} << kDropped) - 1)));
  const V normal = hn::BitCast(d, kept);
  const V step = hn::Set(d, Format::kStep);
  const V subnormal = hn::Sub(hn::Add(x, step), step);
  const V size = hn::Abs(x);
  const V rounded = hn::IfThenElse(hn::Lt(size, hn::Set(d, Format::kSmallest)), subnormal, normal);
  const V infinity = hn::CopySign(hn::Set(d, HUGE_VAL), x);
  return hn::IfThenElse(hn::Lt(hn::Abs(rounded), hn::Set(d, Format::kInfinite)), rounded, infinity);
}

}  // namespace HWY_NAMESPACE
}  // namespace rope::spectral
HWY_AFTER_NAMESPACE();

#endif
