// int8 products for the baseline, in plain C++: panels of one weight row with signed codes. The
// inner loops are shaped so that the compiler finds pmaddwd.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/micro_kernels.h"
#include "ops/blocks.h"
#include "ops/decode_row.h"
#include "ops/k_values.h"
#include "tensor/float16.h"

namespace octavo::backends::cpu {
namespace {

using namespace ops;  // the block types

template <int kNumParts>
struct PanelBlock {
  float d[kNumParts];
  float m[kNumParts];
  int16_t codes[kBlockValues];
};

void quantize(QuantizedBlock* dst, const float* x, int64_t blocks, const Int8Kernel& kernel) {
  for (int64_t b = 0; b < blocks; ++b, x += kBlockValues, ++dst) {
    float top = 0;
    bool finite = true;
    for (int i = 0; i < kBlockValues; ++i) {
      top = std::fmax(top, std::fabs(x[i]));
      finite &= std::isfinite(x[i]);
    }
    if (!finite) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      *dst = {nan, {nan, nan}, {}, kNoneFine, {}};
      continue;
    }
    const float inverse = top >= kLeastMagnitude ? 127.0f / top : 0;
    int sums[2] = {};
    for (int i = 0; i < kBlockValues; ++i) {
      dst->codes[i] = static_cast<int8_t>(std::nearbyintf(x[i] * inverse));
      sums[i * kernel.parts / kBlockValues] += dst->codes[i];
    }
    dst->scale = top / 127.0f;
    dst->fine = kNoneFine;
    for (int p = 0; p < 2; ++p) {
      dst->sums[p] = dst->scale * static_cast<float>(sums[p]);
      dst->corrections[p] = -kernel.zero * sums[p];
    }
  }
}

using OnePart = PanelBlock<1>;

void unpack_nibbles(OnePart& out, const uint8_t* qs, const uint8_t* qh, int bias) {
  uint32_t high = 0;
  if (qh != nullptr) std::memcpy(&high, qh, sizeof(high));
  for (int j = 0; j < 16; ++j) {
    out.codes[j] = static_cast<int16_t>(((qs[j] & 15) | (high >> j & 1) << 4) - bias);
    out.codes[j + 16] = static_cast<int16_t>((qs[j] >> 4 | (high >> (j + 16) & 1) << 4) - bias);
  }
}

void unpack_levels(OnePart& out, const uint8_t* qs, const int8_t* levels) {
  for (int j = 0; j < 16; ++j) {
    out.codes[j] = levels[qs[j] & 15];
    out.codes[j + 16] = levels[qs[j] >> 4];
  }
}

void set_scale(OnePart& out, float d, float m) {
  out.d[0] = d;
  out.m[0] = m;
}

// A block of the file becomes one block of 32 values, or eight.
void unpack_block(OnePart* out, const BlockQ4_0& b) {
  set_scale(*out, fp16_to_float(b.d), 0);
  unpack_nibbles(*out, b.qs, nullptr, 8);
}
void unpack_block(OnePart* out, const BlockQ4_1& b) {
  set_scale(*out, fp16_to_float(b.d), fp16_to_float(b.m));
  unpack_nibbles(*out, b.qs, nullptr, 0);
}
void unpack_block(OnePart* out, const BlockQ5_0& b) {
  set_scale(*out, fp16_to_float(b.d), 0);
  unpack_nibbles(*out, b.qs, b.qh, 16);
}
void unpack_block(OnePart* out, const BlockQ5_1& b) {
  set_scale(*out, fp16_to_float(b.d), fp16_to_float(b.m));
  unpack_nibbles(*out, b.qs, b.qh, 0);
}
void unpack_block(OnePart* out, const BlockQ8_0& b) {
  set_scale(*out, fp16_to_float(b.d), 0);
  std::copy(b.qs, b.qs + kBlockValues, out->codes);
}
void unpack_block(OnePart* out, const BlockIQ4_NL& b) {
  set_scale(*out, fp16_to_float(b.d), 0);
  unpack_levels(*out, b.qs, kIQ4Levels);
}
void unpack_block(OnePart* out, const BlockMXFP4& b) {
  set_scale(*out, mxfp4_scale(b.e), 0);
  unpack_levels(*out, b.qs, kMXFP4Levels);
}
void unpack_block(PanelBlock<2>* out, const KValues& k) {
  for (int s = 0; s < kKSubBlocks; ++s) {
    for (int p = 0; p < 2; ++p) {
      out[s].d[p] = k.d[2 * s + p];
      out[s].m[p] = k.m[2 * s + p];
    }
    std::copy_n(k.codes + s * kBlockValues, kBlockValues, out[s].codes);
  }
}
template <typename Block>
void unpack_block(PanelBlock<2>* out, const Block& b) {
  KValues k;
  ops::unpack_block(k, b);
  unpack_block(out, k);
}

// kSubBlocks: how many times 32 values a block of the file has.
template <typename Block, int kNumParts, int kSubBlocks>
void unpack(void* panel, const Int8Weights& weights) {
  auto* out = static_cast<PanelBlock<kNumParts>*>(panel);
  const auto* src = static_cast<const std::byte*>(weights.rows[0]);
  for (int64_t b = 0; b < weights.blocks; b += kSubBlocks, src += sizeof(Block)) {
    Block block;
    std::memcpy(&block, src, sizeof(Block));
    unpack_block(out + b, block);
  }
}

template <int kCount>
int32_t dot_product(const int16_t* w, const int8_t* x) {
  int32_t dot = 0;
  for (int i = 0; i < kCount; ++i) dot += w[i] * static_cast<int16_t>(x[i]);
  return dot;
}

template <int kNumParts>
void multiply(const Int8Multiply& a) {
  constexpr int kPartValues = kBlockValues / kNumParts;
  for (int64_t row = 0; row < a.rows; ++row) {
    const QuantizedBlock* x = a.x + row * a.x_stride;
    const auto* w = static_cast<const PanelBlock<kNumParts>*>(a.panel);
    float* out = a.out + row * a.out_stride;
    float sum = a.accumulate ? *out : 0;
    for (int64_t b = 0; b < a.blocks; ++b, ++x, ++w) {
      for (int p = 0; p < kNumParts; ++p) {
        const int16_t* codes = w->codes + p * kPartValues;
        int32_t dot = dot_product<kPartValues>(codes, x->codes + p * kPartValues);
        if (x->fine > 0) {
          dot += kUpperStep * dot_product<kPartValues>(codes, x[x->fine].codes + p * kPartValues);
        }
        sum += static_cast<float>(dot) * (w->d[p] * x->scale);
        sum += w->m[p] * x->sums[p];
      }
    }
    *out = sum;
  }
}

template <typename Block, int kNumParts = 1, int kSubBlocks = 1>
constexpr Int8Kernel kernel() {
  return {0,
          kNumParts,
          sizeof(PanelBlock<kNumParts>),
          unpack<Block, kNumParts, kSubBlocks>,
          multiply<kNumParts>,
          nullptr};
}
template <typename Block>
constexpr Int8Kernel k_kernel() {
  return kernel<Block, 2, kKSubBlocks>();
}

}  // namespace

const Int8Kernels kInt8Generic = {
    1,
    0,
    quantize,
    {kernel<BlockQ4_0>(), kernel<BlockQ4_1>(), kernel<BlockQ5_0>(), kernel<BlockQ5_1>(),
     kernel<BlockQ8_0>(), k_kernel<BlockQ2_K>(), k_kernel<BlockQ3_K>(), k_kernel<BlockQ4_K>(),
     k_kernel<BlockQ5_K>(), k_kernel<BlockQ6_K>(), kernel<BlockIQ4_NL>(), k_kernel<BlockIQ4_XS>(),
     kernel<BlockMXFP4>()},
    k_kernel<KValues>(),
};

}  // namespace octavo::backends::cpu
