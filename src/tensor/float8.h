// Conversions between float and E4M3 (OCP 8-bit floating point, the variant without infinities): a
// sign, four bits of exponent with bias 7, three of mantissa; 448 is the largest number, the codes
// with all seven lower bits set are NaN. Rounding is to nearest, ties to even, and saturates.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace octavo {

inline constexpr float kE4M3Max = 448;

inline float e4m3_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7F;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const float subnormal = static_cast<float>(magnitude) * 0x1.0p-9f;
  const uint32_t normal = (magnitude << 20) + (120u << 23);
  uint32_t bits = magnitude < 8 ? std::bit_cast<uint32_t>(subnormal) : normal;
  bits = magnitude == 0x7F ? 0x7FC00000 : bits;
  return std::bit_cast<float>(bits | sign);
}

inline uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7F;
  if (magnitude >= kE4M3Max) return sign | 0x7E;
  // Below the least normal number, 2^-6, codes are multiples of 2^-9.
  if (magnitude < 0x1.0p-6f) return sign | static_cast<uint8_t>(std::lrint(magnitude * 512));
  const uint32_t mantissa = bits & 0x7FFFFFFF;
  const uint32_t rounded = (mantissa + 0x7FFFF + (mantissa >> 20 & 1)) >> 20;
  return sign | static_cast<uint8_t>(rounded - (120u << 3));
}

// e4m3_to_float(float_to_e4m3(value)) without branches, for loops that a compiler vectorises.
inline float round_to_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const float magnitude = std::min(std::bit_cast<float>(bits & 0x7FFFFFFF), kE4M3Max);
  const auto mantissa = std::bit_cast<uint32_t>(magnitude);
  const uint32_t normal = (mantissa + 0x7FFFF + (mantissa >> 20 & 1)) & ~uint32_t{0xFFFFF};
  constexpr float kUlpIsTwoToMinus9 = 0x1.8p14f;  // the adder rounds to multiples of it
  const float subnormal = (magnitude + kUlpIsTwoToMinus9) - kUlpIsTwoToMinus9;
  const uint32_t rounded = magnitude < 0x1.0p-6f ? std::bit_cast<uint32_t>(subnormal) : normal;
  const float result = std::bit_cast<float>(rounded | (bits & 0x80000000));
  return value != value ? value : result;
}

}  // namespace octavo
