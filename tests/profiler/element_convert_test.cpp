#include "profiler/element_convert.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "profiler/lzf.hpp"
#include "spectral/adjacent_sweep.hpp"
#include "spectral/simd_targets.hpp"

TEST_SUITE_BEGIN("profiler");

namespace {

using rope::ElementType;

/// The value of float bits by definition: sign * mantissa * 2^exponent.
double value_of(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & top;
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  if (exponent == top)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& bits) {
  std::vector<std::byte> bytes(bits.size() * 2);
  std::memcpy(bytes.data(), bits.data(), bytes.size());
  return bytes;
}

void check_every_pattern(ElementType type, int exponent_bits, int mantissa_bits) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<double> values(bits.size(), -1.0);
  const std::vector<std::byte> stored = bytes_of(bits);
  rope::convert_elements(type, stored.data(), bits.size(), values.data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const double expected = value_of(static_cast<unsigned>(i), exponent_bits, mantissa_bits);
    if (std::isnan(expected) ? !std::isnan(values[i])
                             : !(values[i] == expected && std::signbit(values[i]) == std::signbit(expected)))
      ++wrong;
  }
  CHECK(wrong == 0);
  // Back again: every value that is not NaN has its own bits.
  std::vector<std::byte> again(stored.size());
  rope::store_elements(type, values.data(), values.size(), again.data());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (std::isnan(values[i])) continue;
    if (std::memcmp(again.data() + 2 * i, stored.data() + 2 * i, 2) != 0) ++wrong;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every float16 and bfloat16 pattern converts exactly and back") {
  for (const std::string& target : rope::spectral::simd_available()) {
    rope::spectral::select_simd(target);
    CAPTURE(target);
    check_every_pattern(ElementType::kFloat16, 5, 10);
    check_every_pattern(ElementType::kBfloat16, 8, 7);
  }
  rope::spectral::select_simd("auto");
}

TEST_CASE("conversion of any count writes exactly that many values, at any alignment") {
  for (std::size_t count = 0; count < 40; ++count) {
    std::vector<std::byte> bytes(2 * count + 1);
    std::vector<double> source(count), values(count + 1, -7.0);
    for (std::size_t i = 0; i < count; ++i) source[i] = static_cast<double>(i) - 3.5;
    rope::store_elements(ElementType::kFloat16, source.data(), count, bytes.data() + 1);
    rope::convert_elements(ElementType::kFloat16, bytes.data() + 1, count, values.data());
    CHECK(std::equal(source.begin(), source.end(), values.begin()));
    CHECK(values[count] == -7.0);
  }
}

TEST_CASE("rounding to float16 and bfloat16 is to nearest even, once") {
  const auto bits = [](ElementType type, double value) {
    std::uint16_t out = 0;
    rope::store_elements(type, &value, 1, reinterpret_cast<std::byte*>(&out));
    return out;
  };
  CHECK(bits(ElementType::kFloat16, 1.0 + 0x1p-11) == 0x3c00);            // tie: down to even
  CHECK(bits(ElementType::kFloat16, 1.0 + 3 * 0x1p-11) == 0x3c02);        // tie: up to even
  CHECK(bits(ElementType::kFloat16, 1.0 + 0x1p-11 + 0x1p-40) == 0x3c01);  // lost if rounded to float32 first
  CHECK(bits(ElementType::kFloat16, 65504.0) == 0x7bff);
  CHECK(bits(ElementType::kFloat16, 65519.9) == 0x7bff);
  CHECK(bits(ElementType::kFloat16, 65520.0) == 0x7c00);
  CHECK(bits(ElementType::kFloat16, 0x1p-25) == 0x0000);
  CHECK(bits(ElementType::kFloat16, 0x1.8p-25) == 0x0001);
  CHECK(bits(ElementType::kFloat16, -0x1.ffcp-15) == 0x83ff + 1);  // rounds up into the normal range
  CHECK(bits(ElementType::kBfloat16, 1.0 + 0x1p-8) == 0x3f80);
  CHECK(bits(ElementType::kBfloat16, 1.0 + 0x1p-8 + 0x1p-45) == 0x3f81);
  CHECK(bits(ElementType::kBfloat16, 1e39) == 0x7f80);
}

TEST_CASE("LZF decodes hand-made streams and refuses damaged ones") {
  std::vector<std::uint8_t> out(12);
  const auto decode = [&](const std::vector<std::uint8_t>& stream) {
    return rope::lzf_decode(stream.data(), stream.size(), out.data(), out.size());
  };
  // "abc", then 9 bytes from 3 back (overlapping): 7 + 0 + 2.
  const std::vector<std::uint8_t> good = {2, 'a', 'b', 'c', 7 << 5, 0, 2};
  REQUIRE(decode(good));
  CHECK(std::string(out.begin(), out.end()) == "abcabcabcabc");
  CHECK(decode({11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  CHECK_FALSE(decode({2, 'a', 'b', 'c'}));                // too short
  CHECK_FALSE(decode({2, 'a', 'b', 'c', 7 << 5, 1, 2}));  // too long
  CHECK_FALSE(decode({2, 'a', 'b', 'c', 7 << 5, 0, 3}));  // before the start
  CHECK_FALSE(decode({2, 'a', 'b', 'c', 7 << 5, 0}));     // ends inside an item
  CHECK_FALSE(decode({2, 'a', 'b', 'c', 7 << 5}));
  CHECK_FALSE(decode({5, 'a', 'b'}));
  CHECK_FALSE(decode({}));
}

TEST_CASE("LZF encoding gives back what went in") {
  std::mt19937_64 random(7);
  for (const std::size_t size : {4u, 33u, 300u, 70000u})
    for (const unsigned letters : {1u, 2u, 5u, 256u}) {
      std::vector<std::uint8_t> in(size), out(size);
      for (auto& byte : in) byte = static_cast<std::uint8_t>(random() % letters);
      const auto stream = rope::lzf_encode(in.data(), in.size());
      if (stream.empty()) continue;  // would not be shorter
      CHECK(stream.size() < size);
      REQUIRE(rope::lzf_decode(stream.data(), stream.size(), out.data(), out.size()));
      CHECK(out == in);
    }
  const std::vector<std::uint8_t> zeros(100000);
  CHECK(rope::lzf_encode(zeros.data(), zeros.size()).size() < 1500);
}

TEST_SUITE_END();
