// The IQ and TQ types in plain C++; ops/iq_blocks.h says what their bytes mean. Grid entries become
// eight or four bytes at compile time, so that values are not unpacked one by one.
#include <array>
#include <bit>
#include <cstring>

#include "ops/blocks.h"
#include "ops/iq_grids.inl"
#include "ops/k_values.h"
#include "tensor/float16.h"

namespace octavo::ops {
namespace {

// Every entry of `grid` as bytes: levels[value] for each of its values, kBits each.
template <int kBits, typename Word, size_t kEntries, size_t kLevels>
constexpr std::array<Word, kEntries> expanded(const uint16_t (&grid)[kEntries],
                                              const int (&levels)[kLevels]) {
  std::array<Word, kEntries> words = {};
  for (size_t i = 0; i < kEntries; ++i) {
    for (size_t j = 0; j < sizeof(Word); ++j) {
      const int level = levels[grid[i] >> kBits * j & ((1 << kBits) - 1)];
      words[i] |= static_cast<Word>(level & 255) << 8 * j;
    }
  }
  return words;
}

constexpr int kIQ2Levels[] = {8, 25, 43};
constexpr int kIQ3XxsLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int kIQ3SLevels[] = {1, 3, 5, 7, 9, 11, 13, 15};
// Eight times -1, 0 and 1, plus the offset of an eighth that the types have.
constexpr int kIQ1Levels[] = {-7, 1, 9};
constexpr auto kIQ3S = expanded<3, uint32_t>(kIQ3SGrid, kIQ3SLevels);
constexpr auto kIQ3Xxs = expanded<3, uint32_t>(kIQ3XxsGrid, kIQ3XxsLevels);
constexpr auto kIQ2S = expanded<2, uint64_t>(kIQ2SGrid, kIQ2Levels);
constexpr auto kIQ2Xs = expanded<2, uint64_t>(kIQ2XsGrid, kIQ2Levels);
constexpr auto kIQ2Xxs = expanded<2, uint64_t>(kIQ2XxsGrid, kIQ2Levels);
constexpr auto kIQ1 = expanded<2, uint64_t>(kIQ1Grid, kIQ1Levels);

// 255 in byte j where bit j of the index is set.
constexpr std::array<uint64_t, 256> kBytesOfBits = [] {
  std::array<uint64_t, 256> words = {};
  for (size_t i = 0; i < words.size(); ++i) {
    for (size_t j = 0; j < 8; ++j) words[i] |= (i >> j & 1) * uint64_t{255} << 8 * j;
  }
  return words;
}();

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

// Eight values, none of them zero; bit j of `signs` makes value j negative.
void store_signed(int8_t* dst, uint64_t values, uint32_t signs) {
  const uint64_t mask = kBytesOfBits[signs];
  // The complement and one more; a byte above zero cannot carry into the next.
  const uint64_t codes = (values ^ mask) + (mask & 0x0101010101010101);
  std::memcpy(dst, &codes, sizeof(codes));
}

// Eight values of an IQ1 type.
void store_iq1(int8_t* dst, uint32_t index, bool negative) {
  int8_t values[8];
  std::memcpy(values, &kIQ1[index], sizeof(values));
  for (int j = 0; j < 8; ++j) dst[j] = static_cast<int8_t>(values[j] - (negative ? 2 : 0));
}

void set_no_minima(KValues& out) {
  for (float& m : out.m) m = kNoMin;
}

// The scale of `count` times 16 values from the k-th on.
void set_scale(KValues& out, int k, int count, float d) {
  for (int i = 0; i < count; ++i) out.d[k + i] = d;
}

}  // namespace

void unpack_block(KValues& out, const BlockIQ4_XS& b) {
  set_no_minima(out);
  for (int s = 0; s < kKSubBlocks; ++s) {
    const int scale = nibble(b.scales_low, s) | (b.scales_high >> 2 * s & 3) << 4;
    set_scale(out, 2 * s, 2, fp16_to_float(b.d) * static_cast<float>(scale - 32));
    for (int j = 0; j < 16; ++j) {
      out.codes[32 * s + j] = kIQ4Levels[b.qs[16 * s + j] & 15];
      out.codes[32 * s + j + 16] = kIQ4Levels[b.qs[16 * s + j] >> 4];
    }
  }
}

void unpack_block(KValues& out, const BlockIQ3_S& b) {
  set_no_minima(out);
  const auto entry = [&](int i) -> uint64_t {
    return kIQ3S[b.qs[i] | (b.qh[i / 8] >> i % 8 & 1) << 8];
  };
  for (int i = 0; i < 32; ++i) {
    store_signed(out.codes + 8 * i, entry(2 * i) | entry(2 * i + 1) << 32, b.signs[i]);
  }
  for (int s = 0; s < kKSubBlocks; ++s) {
    const int steps = 1 + 2 * nibble(b.scales, s);
    set_scale(out, 2 * s, 2, fp16_to_float(b.d) * static_cast<float>(steps));
  }
}

void unpack_block(KValues& out, const BlockIQ3_XXS& b) {
  set_no_minima(out);
  for (int s = 0; s < kKSubBlocks; ++s) {
    const uint32_t word = load_word(b.signs + 4 * s);
    const float steps = 0.5f + static_cast<float>(word >> 28);
    set_scale(out, 2 * s, 2, fp16_to_float(b.d) * steps * 0.5f);
    for (int i = 0; i < 4; ++i) {
      const uint8_t* indexes = b.qs + 8 * s + 2 * i;
      const uint64_t values = kIQ3Xxs[indexes[0]] | uint64_t{kIQ3Xxs[indexes[1]]} << 32;
      store_signed(out.codes + 32 * s + 8 * i, values, even_signs(word >> 7 * i & 127));
    }
  }
}

void unpack_block(KValues& out, const BlockIQ2_S& b) {
  set_no_minima(out);
  for (int i = 0; i < 32; ++i) {
    const uint32_t index = b.qs[i] | (b.qh[i / 4] >> 2 * (i % 4) & 3) << 8;
    store_signed(out.codes + 8 * i, kIQ2S[index], b.signs[i]);
  }
  for (int k = 0; k < 16; ++k) {
    const float steps = 0.5f + static_cast<float>(nibble(b.scales, k));
    out.d[k] = fp16_to_float(b.d) * steps * 0.25f;
  }
}

void unpack_block(KValues& out, const BlockIQ2_XS& b) {
  set_no_minima(out);
  for (int i = 0; i < 32; ++i) {
    store_signed(out.codes + 8 * i, kIQ2Xs[b.qs[i] & 511], even_signs(b.qs[i] >> 9));
  }
  for (int k = 0; k < 16; ++k) {
    const float steps = 0.5f + static_cast<float>(nibble(b.scales, k));
    out.d[k] = fp16_to_float(b.d) * steps * 0.25f;
  }
}

void unpack_block(KValues& out, const BlockIQ2_XXS& b) {
  set_no_minima(out);
  for (int s = 0; s < kKSubBlocks; ++s) {
    const uint8_t* indexes = b.qs + 8 * s;
    const uint32_t word = load_word(indexes + 4);
    const float steps = 0.5f + static_cast<float>(word >> 28);
    set_scale(out, 2 * s, 2, fp16_to_float(b.d) * steps * 0.25f);
    for (int i = 0; i < 4; ++i) {
      store_signed(out.codes + 32 * s + 8 * i, kIQ2Xxs[indexes[i]],
                   even_signs(word >> 7 * i & 127));
    }
  }
}

void unpack_block(KValues& out, const BlockIQ1_M& b) {
  set_no_minima(out);
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) d |= static_cast<uint32_t>(b.scales[i] >> 12) << 4 * i;
  const float eighth = fp16_to_float(static_cast<uint16_t>(d)) / 8;
  for (int i = 0; i < 32; ++i) {
    const int high = nibble(b.qh, i);
    store_iq1(out.codes + 8 * i, b.qs[i] | (high & 7) << 8, (high & 8) != 0);
  }
  for (int k = 0; k < 16; ++k) {
    const int steps = b.scales[k / 4] >> 3 * (k % 4) & 7;
    out.d[k] = eighth * static_cast<float>(2 * steps + 1);
  }
}

void unpack_block(KValues& out, const BlockIQ1_S& b) {
  set_no_minima(out);
  const float eighth = fp16_to_float(b.d) / 8;
  for (int s = 0; s < kKSubBlocks; ++s) {
    const uint32_t word = b.qh[s];
    set_scale(out, 2 * s, 2, eighth * static_cast<float>(2 * (word >> 12 & 7) + 1));
    for (int i = 0; i < 4; ++i) {
      const uint32_t index = b.qs[4 * s + i] | (word >> 3 * i & 7) << 8;
      store_iq1(out.codes + 32 * s + 8 * i, index, word >> 15 != 0);
    }
  }
}

void unpack_block(KValues& out, const BlockTQ2_0& b) {
  set_no_minima(out);
  set_scale(out, 0, 16, fp16_to_float(b.d));
  for (int s = 0; s < kKSubBlocks; ++s) {
    for (int i = 0; i < 32; ++i) {
      const int code = b.qs[s / 4 * 32 + i] >> 2 * (s % 4) & 3;
      out.codes[32 * s + i] = static_cast<int8_t>(code - 1);
    }
  }
}

void unpack_block(KValues& out, const BlockTQ1_0& b) {
  static constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  set_no_minima(out);
  set_scale(out, 0, 16, fp16_to_float(b.d));
  int8_t* dst = out.codes;
  // `count` bytes: their first digits, then their second ones, and so on.
  const auto unpack = [&dst](const uint8_t* bytes, int count, int digits) {
    for (int digit = 0; digit < digits; ++digit) {
      for (int i = 0; i < count; ++i) {
        const auto fraction = static_cast<uint8_t>(bytes[i] * kPowers[digit]);
        *dst++ = static_cast<int8_t>((fraction * 3 >> 8) - 1);
      }
    }
  };
  unpack(b.qs, 32, 5);
  unpack(b.qs + 32, 16, 5);
  unpack(b.qh, 4, 4);
}

}  // namespace octavo::ops
