// The IQ and TQ types in plain C++; ops/iq_blocks.h says what their bytes mean.
#include <bit>
#include <cstring>

#include "ops/decode_block.h"
#include "ops/iq_grids.h"
#include "tensor/float16.h"

namespace octavo::ops {
namespace {

constexpr int kIq2Levels[] = {8, 25, 43};
constexpr int kIq3XxsLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int kIq3SLevels[] = {1, 3, 5, 7, 9, 11, 13, 15};

int nibble(const uint8_t* bytes, int i) {
  return bytes[i / 2] >> 4 * (i % 2) & 15;
}

uint32_t load_word(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Seven sign bits and an eighth that makes their number even.
uint32_t even_signs(uint32_t seven) {
  return seven | static_cast<uint32_t>(std::popcount(seven) % 2) << 7;
}

// kCount values of a grid entry, kBits each; bit j of `signs` makes value j negative.
template <int kCount, int kBits>
void decode_entry(float* dst, uint32_t entry, const int* levels, uint32_t signs, float scale) {
  for (int j = 0; j < kCount; ++j) {
    const float value = scale * static_cast<float>(levels[entry >> kBits * j & ((1 << kBits) - 1)]);
    dst[j] = (signs >> j & 1) != 0 ? -value : value;
  }
}

// Eight values of an IQ1 type.
void decode_iq1_entry(float* dst, uint32_t entry, bool negative, float scale) {
  const float offset = negative ? -0.125f : 0.125f;
  for (int j = 0; j < 8; ++j) {
    dst[j] = scale * (static_cast<float>(static_cast<int>(entry >> 2 * j & 3) - 1) + offset);
  }
}

}  // namespace

int iq4_xs_scale(const BlockIQ4_XS& b, int sub_block) {
  const int high = b.scales_high >> 2 * sub_block & 3;
  return (nibble(b.scales_low, sub_block) | high << 4) - 32;
}

void decode_block(const BlockIQ4_XS& b, float* dst) {
  for (int s = 0; s < 8; ++s, dst += 32) {
    const float d = fp16_to_float(b.d) * static_cast<float>(iq4_xs_scale(b, s));
    for (int j = 0; j < 16; ++j) {
      dst[j] = d * static_cast<float>(kIQ4Levels[b.qs[16 * s + j] & 15]);
      dst[j + 16] = d * static_cast<float>(kIQ4Levels[b.qs[16 * s + j] >> 4]);
    }
  }
}

void decode_block(const BlockIQ3_S& b, float* dst) {
  for (int i = 0; i < 64; ++i) {
    const float scale = fp16_to_float(b.d) * static_cast<float>(1 + 2 * nibble(b.scales, i / 8));
    const uint32_t index = b.qs[i] | (b.qh[i / 8] >> i % 8 & 1) << 8;
    decode_entry<4, 3>(dst + 4 * i, kIq3SGrid[index], kIq3SLevels, nibble(b.signs, i), scale);
  }
}

void decode_block(const BlockIQ3_XXS& b, float* dst) {
  for (int i = 0; i < 64; ++i) {
    const uint32_t word = load_word(b.signs + i / 8 * 4);
    const float scale = fp16_to_float(b.d) * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const uint32_t signs = even_signs(word >> 7 * (i / 2 % 4) & 127) >> 4 * (i % 2);
    decode_entry<4, 3>(dst + 4 * i, kIq3XxsGrid[b.qs[i]], kIq3XxsLevels, signs, scale);
  }
}

void decode_block(const BlockIQ2_S& b, float* dst) {
  for (int i = 0; i < 32; ++i) {
    const float steps = 0.5f + static_cast<float>(nibble(b.scales, i / 2));
    const uint32_t index = b.qs[i] | (b.qh[i / 4] >> 2 * (i % 4) & 3) << 8;
    decode_entry<8, 2>(dst + 8 * i, kIq2SGrid[index], kIq2Levels, b.signs[i],
                       fp16_to_float(b.d) * steps * 0.25f);
  }
}

void decode_block(const BlockIQ2_XS& b, float* dst) {
  for (int i = 0; i < 32; ++i) {
    const float steps = 0.5f + static_cast<float>(nibble(b.scales, i / 2));
    decode_entry<8, 2>(dst + 8 * i, kIq2XsGrid[b.qs[i] & 511], kIq2Levels, even_signs(b.qs[i] >> 9),
                       fp16_to_float(b.d) * steps * 0.25f);
  }
}

void decode_block(const BlockIQ2_XXS& b, float* dst) {
  for (int i = 0; i < 32; ++i) {
    const uint8_t* indexes = b.qs + i / 4 * 8;
    const uint32_t word = load_word(indexes + 4);
    const float steps = 0.5f + static_cast<float>(word >> 28);
    decode_entry<8, 2>(dst + 8 * i, kIq2XxsGrid[indexes[i % 4]], kIq2Levels,
                       even_signs(word >> 7 * (i % 4) & 127), fp16_to_float(b.d) * steps * 0.25f);
  }
}

void decode_block(const BlockIQ1_M& b, float* dst) {
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) d |= static_cast<uint32_t>(b.scales[i] >> 12) << 4 * i;
  for (int i = 0; i < 32; ++i) {
    const int steps = b.scales[i / 8] >> 3 * (i / 2 % 4) & 7;
    const int high = nibble(b.qh, i);
    const uint32_t index = b.qs[i] | (high & 7) << 8;
    decode_iq1_entry(dst + 8 * i, kIq1Grid[index], (high & 8) != 0,
                     fp16_to_float(static_cast<uint16_t>(d)) * static_cast<float>(2 * steps + 1));
  }
}

void decode_block(const BlockIQ1_S& b, float* dst) {
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = b.qh[i / 4];
    const uint32_t index = b.qs[i] | (word >> 3 * (i % 4) & 7) << 8;
    decode_iq1_entry(dst + 8 * i, kIq1Grid[index], word >> 15 != 0,
                     fp16_to_float(b.d) * static_cast<float>(2 * (word >> 12 & 7) + 1));
  }
}

void decode_block(const BlockTQ2_0& b, float* dst) {
  for (int i = 0; i < kKBlockValues; ++i) {
    const int code = b.qs[i / 128 * 32 + i % 32] >> 2 * (i / 32 % 4) & 3;
    dst[i] = fp16_to_float(b.d) * static_cast<float>(code - 1);
  }
}

void decode_block(const BlockTQ1_0& b, float* dst) {
  constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  // `count` bytes: their first digits, then their second ones, ...
  const auto decode = [&](const uint8_t* bytes, int count, int digits) {
    for (int digit = 0; digit < digits; ++digit) {
      for (int i = 0; i < count; ++i) {
        const auto fraction = static_cast<uint8_t>(bytes[i] * kPowers[digit]);
        *dst++ = fp16_to_float(b.d) * static_cast<float>((fraction * 3 >> 8) - 1);
      }
    }
  };
  decode(b.qs, 32, 5);
  decode(b.qs + 32, 16, 5);
  decode(b.qh, 4, 4);
}

}  // namespace octavo::ops
