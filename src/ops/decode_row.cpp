#include "ops/decode_row.h"

#include <cstring>

#include "ops/blocks.h"
#include "tensor/float16.h"

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
  decode_nibbles<8>(dst, b.qs, 0, fp16_to_float(b.d), 0);
}
void decode_block(const BlockQ4_1& b, float* dst) {
  decode_nibbles<0>(dst, b.qs, 0, fp16_to_float(b.d), fp16_to_float(b.m));
}
void decode_block(const BlockQ5_0& b, float* dst) {
  decode_nibbles<16>(dst, b.qs, fifth_bits(b.qh), fp16_to_float(b.d), 0);
}
void decode_block(const BlockQ5_1& b, float* dst) {
  decode_nibbles<0>(dst, b.qs, fifth_bits(b.qh), fp16_to_float(b.d), fp16_to_float(b.m));
}
void decode_block(const BlockQ8_0& b, float* dst) {
  const float d = fp16_to_float(b.d);
  for (int j = 0; j < kBlockValues; ++j) dst[j] = static_cast<float>(b.qs[j]) * d;
}

template <typename Block>
void decode_blocks(const std::byte* src, float* dst, int64_t count) {
  for (int64_t i = 0; i < count / kBlockValues; ++i) {
    Block block;
    std::memcpy(&block, src + i * sizeof(Block), sizeof(Block));
    decode_block(block, dst + i * kBlockValues);
  }
}

struct Row {
  DType dtype;
  DecodeRowFn decode;
};
constexpr Row kTable[] = {
    {DType::kF32, decode_f32},
    {DType::kF16, decode_16bit<fp16_to_float>},
    {DType::kBF16, decode_16bit<bf16_to_float>},
    {DType::kQ4_0, decode_blocks<BlockQ4_0>},
    {DType::kQ4_1, decode_blocks<BlockQ4_1>},
    {DType::kQ5_0, decode_blocks<BlockQ5_0>},
    {DType::kQ5_1, decode_blocks<BlockQ5_1>},
    {DType::kQ8_0, decode_blocks<BlockQ8_0>},
};

}  // namespace

DecodeRowFn decode_row_fn(DType dtype) {
  for (const Row& row : kTable) {
    if (row.dtype == dtype) return row.decode;
  }
  return nullptr;
}

}  // namespace octavo::ops
