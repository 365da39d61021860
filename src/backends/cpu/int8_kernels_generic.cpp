// int8 products for the baseline, in plain C++: panels of one weight row with signed codes. The
// inner loops are shaped so that the compiler finds pmaddwd.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/micro_kernels.h"
#include "ops/blocks.h"
#include "tensor/float16.h"

namespace octavo::backends::cpu {
namespace {

using namespace ops;  // the block types

struct PanelBlock {
  float d;
  float m;
  int16_t codes[kBlockValues];
};

void quantize(QuantizedBlock* dst, const float* x, int64_t blocks, int zero) {
  for (int64_t b = 0; b < blocks; ++b, x += kBlockValues, ++dst) {
    float top = 0;
    bool finite = true;
    for (int i = 0; i < kBlockValues; ++i) {
      top = std::fmax(top, std::fabs(x[i]));
      finite &= std::isfinite(x[i]);
    }
    if (!finite) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      *dst = {nan, nan, 0, {}};
      continue;
    }
    const float inverse = top >= kLeastMagnitude ? 127.0f / top : 0;
    int sum = 0;
    for (int i = 0; i < kBlockValues; ++i) {
      dst->codes[i] = static_cast<int8_t>(std::nearbyintf(x[i] * inverse));
      sum += dst->codes[i];
    }
    dst->scale = top / 127.0f;
    dst->sum = dst->scale * static_cast<float>(sum);
    dst->correction = -zero * sum;
  }
}

void unpack_nibbles(PanelBlock& out, const uint8_t* qs, const uint8_t* qh, int bias) {
  uint32_t high = 0;
  if (qh != nullptr) std::memcpy(&high, qh, sizeof(high));
  for (int j = 0; j < 16; ++j) {
    out.codes[j] = static_cast<int16_t>(((qs[j] & 15) | (high >> j & 1) << 4) - bias);
    out.codes[j + 16] = static_cast<int16_t>((qs[j] >> 4 | (high >> (j + 16) & 1) << 4) - bias);
  }
}

void unpack_block(PanelBlock& out, const BlockQ4_0& b) {
  unpack_nibbles(out, b.qs, nullptr, 8);
}
void unpack_block(PanelBlock& out, const BlockQ4_1& b) {
  unpack_nibbles(out, b.qs, nullptr, 0);
  out.m = fp16_to_float(b.m);
}
void unpack_block(PanelBlock& out, const BlockQ5_0& b) {
  unpack_nibbles(out, b.qs, b.qh, 16);
}
void unpack_block(PanelBlock& out, const BlockQ5_1& b) {
  unpack_nibbles(out, b.qs, b.qh, 0);
  out.m = fp16_to_float(b.m);
}
void unpack_block(PanelBlock& out, const BlockQ8_0& b) {
  std::copy(b.qs, b.qs + kBlockValues, out.codes);
}

template <typename Block>
void unpack(void* panel, const Int8Weights& weights) {
  auto* out = static_cast<PanelBlock*>(panel);
  const auto* src = static_cast<const std::byte*>(weights.rows[0]);
  for (int64_t b = 0; b < weights.blocks; ++b, ++out, src += sizeof(Block)) {
    Block block;
    std::memcpy(&block, src, sizeof(Block));
    out->d = fp16_to_float(block.d);
    out->m = 0;
    unpack_block(*out, block);
  }
}

void multiply(const Int8Multiply& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const QuantizedBlock* x = a.x + row * a.x_stride;
    const auto* w = static_cast<const PanelBlock*>(a.panel);
    float* out = a.out + row * a.out_stride;
    float sum = a.accumulate ? *out : 0;
    for (int64_t b = 0; b < a.blocks; ++b, ++x, ++w) {
      int32_t dot = 0;
      for (int i = 0; i < kBlockValues; ++i) dot += w->codes[i] * static_cast<int16_t>(x->codes[i]);
      sum += static_cast<float>(dot) * (w->d * x->scale);
      sum += w->m * x->sum;
    }
    *out = sum;
  }
}

}  // namespace

const Int8Kernels kInt8Generic = {
    1,
    sizeof(PanelBlock),
    0,
    quantize,
    {{0, unpack<BlockQ4_0>, multiply, nullptr},
     {0, unpack<BlockQ4_1>, multiply, nullptr},
     {0, unpack<BlockQ5_0>, multiply, nullptr},
     {0, unpack<BlockQ5_1>, multiply, nullptr},
     {0, unpack<BlockQ8_0>, multiply, nullptr}},
};

}  // namespace octavo::backends::cpu
