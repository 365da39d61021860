#include "support/random_blocks.h"

#include <cmath>
#include <cstring>

#include "tensor/float16.h"
#include "tensor/float8.h"

namespace octavo::testing {
namespace {

// Where a block of a type has its scale and its minimum (IEEE halves), and what codes (times the
// block's own small scales) they are multiplied with at most.
struct BlockScales {
  DType dtype;
  int d_at;
  float largest;
  int m_at = -1;
  float largest_m = 1;
};
constexpr BlockScales kBlockScales[] = {
    {DType::kQ4_0, 0, 8},
    {DType::kQ4_1, 0, 15, 2, 1},
    {DType::kQ5_0, 0, 16},
    {DType::kQ5_1, 0, 31, 2, 1},
    {DType::kQ8_0, 0, 127},
    {DType::kQ2_K, 80, 3 * 15, 82, 15},
    {DType::kQ3_K, 108, 4 * 32},
    {DType::kQ4_K, 0, 15 * 63, 2, 63},
    {DType::kQ5_K, 0, 31 * 63, 2, 63},
    {DType::kQ6_K, 208, 32 * 128},
    {DType::kIQ4_NL, 0, 127},
    {DType::kIQ4_XS, 0, 127 * 32},
    {DType::kIQ3_S, 0, 15 * 31},
    {DType::kIQ3_XXS, 0, 62 * 8},
    {DType::kIQ2_S, 0, 43 * 4},
    {DType::kIQ2_XS, 0, 43 * 4},
    {DType::kIQ2_XXS, 0, 43 * 4},
    {DType::kIQ1_S, 0, 15},
    {DType::kTQ2_0, 64, 1},
    {DType::kTQ1_0, 52, 1},
    {DType::kQ1_0, 0, 1},
    {DType::kQ2_0, 0, 2},
};

void set_half(std::byte* dst, float value) {
  const uint16_t half = float_to_fp16(value);
  std::memcpy(dst, &half, sizeof(half));
}

}  // namespace

void fill_random_block(Rng& rng, DType dtype, float magnitude, std::byte* dst) {
  // Any bits are valid codes.
  for (int32_t i = 0; i < dtype_traits(dtype).block_bytes; ++i) {
    dst[i] = static_cast<std::byte>(rng.next_u64());
  }
  for (const BlockScales& scales : kBlockScales) {
    if (scales.dtype != dtype) continue;
    set_half(dst + scales.d_at, magnitude * random_normal(rng) * 2 / scales.largest);
    if (scales.m_at >= 0) {
      set_half(dst + scales.m_at, magnitude * random_normal(rng) / scales.largest_m);
    }
  }
  if (dtype == DType::kMXFP4) {
    const int exponent = 120 + std::ilogb(magnitude) + static_cast<int>(rng.next_u64() % 8);
    dst[0] = static_cast<std::byte>(exponent);
  } else if (dtype == DType::kNVFP4) {
    for (int i = 0; i < 4; ++i) {  // twice the scale of levels up to 12
      const float doubled = magnitude * std::abs(random_normal(rng)) * 4 / 12;
      dst[i] = static_cast<std::byte>(float_to_e4m3(doubled));
    }
  } else if (dtype == DType::kIQ1_M) {  // the upper nibbles of four words
    const uint16_t half = float_to_fp16(magnitude * random_normal(rng) / 8);
    for (int i = 0; i < 4; ++i) {
      const auto nibble = static_cast<std::byte>(half >> 4 * i & 15);
      dst[49 + 2 * i] = (dst[49 + 2 * i] & std::byte{15}) | nibble << 4;
    }
  } else if (dtype == DType::kQ8_0 && rng.next_u64() % 3 == 0) {
    // The one code whose magnitude does not fit seven bits.
    dst[2 + rng.next_u64() % 32] = std::byte{0x80};
  }
}

}  // namespace octavo::testing
