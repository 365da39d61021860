#include "ops/decode_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/blocks.h"
#include "ops/k_values.h"
#include "tensor/float16.h"
#include "tensor/float8.h"

namespace octavo::ops {
namespace {

void decode_f32(const std::byte* src, float* dst, int64_t count) {
  std::memcpy(dst, src, count * sizeof(float));
}

template <float (*kWiden)(uint16_t)>
void decode_16bit(const std::byte* src, float* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, src + i * sizeof(bits), sizeof(bits));
    dst[i] = kWiden(bits);
  }
}

void decode_e4m3(const std::byte* src, float* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dst[i] = e4m3_to_float(static_cast<uint8_t>(src[i]));
}

// 4-bit codes plus the fifth bits of `high`; kBias is the code that stands for zero.
template <int kBias>
void decode_nibbles(float* dst, const uint8_t* qs, uint32_t high, float d, float m) {
  for (int j = 0; j < 16; ++j) {
    const int low_code = (qs[j] & 15) | static_cast<int>(high >> j & 1) << 4;
    const int high_code = qs[j] >> 4 | static_cast<int>(high >> (j + 16) & 1) << 4;
    dst[j] = static_cast<float>(low_code - kBias) * d + m;
    dst[j + 16] = static_cast<float>(high_code - kBias) * d + m;
  }
}

uint32_t fifth_bits(const uint8_t (&qh)[4]) {
  uint32_t bits;
  std::memcpy(&bits, qh, sizeof(bits));
  return bits;
}

void decode_block(const BlockQ4_0& b, float* dst) {
  decode_nibbles<8>(dst, b.qs, 0, fp16_to_float(b.d), kNoMin);
}
void decode_block(const BlockQ4_1& b, float* dst) {
  decode_nibbles<0>(dst, b.qs, 0, fp16_to_float(b.d), fp16_to_float(b.m));
}
void decode_block(const BlockQ5_0& b, float* dst) {
  decode_nibbles<16>(dst, b.qs, fifth_bits(b.qh), fp16_to_float(b.d), kNoMin);
}
void decode_block(const BlockQ5_1& b, float* dst) {
  decode_nibbles<0>(dst, b.qs, fifth_bits(b.qh), fp16_to_float(b.d), fp16_to_float(b.m));
}
void decode_block(const BlockQ8_0& b, float* dst) {
  const float d = fp16_to_float(b.d);
  for (int j = 0; j < kBlockValues; ++j) dst[j] = static_cast<float>(b.qs[j]) * d;
}

void decode_levels(float* dst, const uint8_t* qs, const int8_t* levels, float d) {
  for (int j = 0; j < 16; ++j) {
    dst[j] = static_cast<float>(levels[qs[j] & 15]) * d;
    dst[j + 16] = static_cast<float>(levels[qs[j] >> 4]) * d;
  }
}
void decode_block(const BlockIQ4_NL& b, float* dst) {
  decode_levels(dst, b.qs, kIQ4Levels, fp16_to_float(b.d));
}
void decode_block(const BlockMXFP4& b, float* dst) {
  decode_levels(dst, b.qs, kMXFP4Levels, mxfp4_scale(b.e));
}

void decode_block(const BlockNVFP4& b, float* dst) {
  for (int s = 0; s < 4; ++s, dst += 16) {
    const float d = nvfp4_scale(b.d[s]);
    for (int j = 0; j < 8; ++j) {
      const uint8_t codes = b.qs[8 * s + j];
      dst[j] = static_cast<float>(kMXFP4Levels[codes & 15]) * d;
      dst[j + 8] = static_cast<float>(kMXFP4Levels[codes >> 4]) * d;
    }
  }
}
void decode_block(const BlockQ1_0& b, float* dst) {
  const float d = fp16_to_float(b.d);
  for (int j = 0; j < BlockQ1_0::kValues; ++j) dst[j] = (b.qs[j / 8] >> j % 8 & 1) != 0 ? d : -d;
}
void decode_block(const BlockQ2_0& b, float* dst) {
  const float d = fp16_to_float(b.d);
  for (int j = 0; j < BlockQ2_0::kValues; ++j) {
    dst[j] = static_cast<float>((b.qs[j / 4] >> 2 * (j % 4) & 3) - 1) * d;
  }
}

template <typename Block, int kValues = kBlockValues>
void decode_blocks(const std::byte* src, float* dst, int64_t count) {
  for (int64_t i = 0; i < count / kValues; ++i) {
    Block block;
    std::memcpy(&block, src + i * sizeof(Block), sizeof(Block));
    decode_block(block, dst + i * kValues);
  }
}

template <typename Block>
void unpack_k_blocks(KValues* dst, const std::byte* src, int64_t blocks) {
  for (int64_t i = 0; i < blocks; ++i) {
    Block block;
    std::memcpy(&block, src + i * sizeof(Block), sizeof(Block));
    unpack_block(dst[i], block);
  }
}

template <typename Block>
void decode_k_blocks(const std::byte* src, float* dst, int64_t count) {
  KValues k;
  for (int64_t i = 0; i < count / kKBlockValues; ++i, dst += kKBlockValues) {
    unpack_k_blocks<Block>(&k, src + i * sizeof(Block), 1);
    for (int j = 0; j < kKBlockValues; ++j) {
      dst[j] = static_cast<float>(k.codes[j]) * k.d[j / 16] + k.m[j / 16];
    }
  }
}

struct Row {
  DType dtype;
  DecodeRowFn decode;
  UnpackRowFn unpack = nullptr;
};
template <typename Block>
constexpr Row k_row(DType dtype) {
  return {dtype, decode_k_blocks<Block>, unpack_k_blocks<Block>};
}
constexpr Row kTable[] = {
    {DType::kF32, decode_f32},
    {DType::kF16, decode_16bit<fp16_to_float>},
    {DType::kBF16, decode_16bit<bf16_to_float>},
    {DType::kF8E4M3, decode_e4m3},
    {DType::kQ4_0, decode_blocks<BlockQ4_0>},
    {DType::kQ4_1, decode_blocks<BlockQ4_1>},
    {DType::kQ5_0, decode_blocks<BlockQ5_0>},
    {DType::kQ5_1, decode_blocks<BlockQ5_1>},
    {DType::kQ8_0, decode_blocks<BlockQ8_0>},
    k_row<BlockQ2_K>(DType::kQ2_K),
    k_row<BlockQ3_K>(DType::kQ3_K),
    k_row<BlockQ4_K>(DType::kQ4_K),
    k_row<BlockQ5_K>(DType::kQ5_K),
    k_row<BlockQ6_K>(DType::kQ6_K),
    {DType::kIQ4_NL, decode_blocks<BlockIQ4_NL>},
    k_row<BlockIQ4_XS>(DType::kIQ4_XS),
    {DType::kMXFP4, decode_blocks<BlockMXFP4>},
    k_row<BlockIQ3_S>(DType::kIQ3_S),
    k_row<BlockIQ3_XXS>(DType::kIQ3_XXS),
    k_row<BlockIQ2_S>(DType::kIQ2_S),
    k_row<BlockIQ2_XS>(DType::kIQ2_XS),
    k_row<BlockIQ2_XXS>(DType::kIQ2_XXS),
    k_row<BlockIQ1_M>(DType::kIQ1_M),
    k_row<BlockIQ1_S>(DType::kIQ1_S),
    k_row<BlockTQ2_0>(DType::kTQ2_0),
    k_row<BlockTQ1_0>(DType::kTQ1_0),
    {DType::kNVFP4, decode_blocks<BlockNVFP4, BlockNVFP4::kValues>},
    {DType::kQ1_0, decode_blocks<BlockQ1_0, BlockQ1_0::kValues>},
    {DType::kQ2_0, decode_blocks<BlockQ2_0, BlockQ2_0::kValues>},
};

}  // namespace

float mxfp4_scale(uint8_t e) {
  return e == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, e - 128);
}

float nvfp4_scale(uint8_t d) {
  if (d == 0x7F) return 0;
  const int exponent = d >> 3 & 15;
  const int mantissa = (d & 7) + (exponent == 0 ? 0 : 8);
  return std::ldexp(static_cast<float>(mantissa), std::max(exponent, 1) - 11);
}

DecodeRowFn decode_row_fn(DType dtype) {
  for (const Row& row : kTable) {
    if (row.dtype == dtype) return row.decode;
  }
  return nullptr;
}

UnpackRowFn unpack_row_fn(DType dtype) {
  for (const Row& row : kTable) {
    if (row.dtype == dtype) return row.unpack;
  }
  return nullptr;
}

}  // namespace octavo::ops
