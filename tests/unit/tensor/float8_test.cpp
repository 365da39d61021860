// E4M3 by its definition: every code, and the nearest code of floats of every size, found by
// search.
#include "tensor/float8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "support/random_blocks.h"

namespace octavo {
namespace {

double value_of(int code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// The nearest of the codes 0 to 0x7E, of two the even one.
int nearest(double magnitude) {
  int best = 0;
  for (int code = 1; code <= 0x7E; ++code) {
    const double closer =
        std::abs(value_of(best) - magnitude) - std::abs(value_of(code) - magnitude);
    if (closer > 0 || (closer == 0 && code % 2 == 0)) best = code;
  }
  return best;
}

void expect_rounding(float value) {
  const int code = nearest(std::abs(static_cast<double>(value))) | (std::signbit(value) ? 0x80 : 0);
  ASSERT_EQ(float_to_e4m3(value), code) << value;
  const float rounded = round_to_e4m3(value);
  ASSERT_EQ(std::bit_cast<uint32_t>(rounded),
            std::bit_cast<uint32_t>(e4m3_to_float(static_cast<uint8_t>(code))))
      << value;
}

TEST(Float8, EveryCode) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(value, value_of(code)) << code;
    EXPECT_EQ(float_to_e4m3(value), code);
  }
  EXPECT_EQ(e4m3_to_float(0x7E), kE4M3Max);
}

TEST(Float8, NearestAndTiesToEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const auto middle = static_cast<float>((value_of(code) + value_of(code + 1)) / 2);
    for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e3f)}) {
      expect_rounding(value);
      expect_rounding(-value);
    }
  }
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    expect_rounding(testing::random_normal(rng) *
                    std::ldexp(1.0f, static_cast<int>(rng.next_u64() % 32) - 20));
  }
}

TEST(Float8, SaturatesAndKeepsNan) {
  for (const float value : {448.0f, 463.9f, 464.0f, 480.0f, 1e30f}) {
    expect_rounding(value);
    expect_rounding(-value);
    EXPECT_EQ(round_to_e4m3(value), 448) << value;
  }
  EXPECT_EQ(round_to_e4m3(-HUGE_VALF), -448);
  EXPECT_EQ(float_to_e4m3(-HUGE_VALF), 0xFE);
  for (const float value : {0.0f, 1e-45f, 1e-30f, 0x1p-10f}) {
    expect_rounding(value);
    expect_rounding(-value);
  }
  EXPECT_TRUE(std::isnan(e4m3_to_float(float_to_e4m3(std::nanf("")))));
  EXPECT_TRUE(std::isnan(round_to_e4m3(std::nanf(""))));
}

}  // namespace
}  // namespace octavo
