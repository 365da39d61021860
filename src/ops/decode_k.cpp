// The K types in plain C++; ops/k_blocks.h says what their bytes mean.
#include "ops/blocks.h"
#include "ops/k_values.h"
#include "tensor/float16.h"

namespace octavo::ops {
namespace {

constexpr int kScales = kKBlockValues / 16;

void unpack_codes(KValues& out, const KLayout& layout, const uint8_t* low, const uint8_t* high) {
  for (int s = 0; s < kKSubBlocks; ++s) {
    for (int i = 0; i < kBlockValues; ++i) {
      int code = low[layout.low_at[s] + i] >> layout.low_shift[s] & ((1 << layout.low_bits) - 1);
      if (high != nullptr) {
        const int bits = high[layout.high_at[s] + i] >> layout.high_shift[s];
        code |= (bits & ((1 << layout.high_bits) - 1)) << layout.low_bits;
      }
      out.codes[s * kBlockValues + i] = static_cast<int8_t>(code - layout.zero);
    }
  }
}

// Q4_K and Q5_K.
template <typename Block>
void unpack_scales_and_minima(KValues& out, const Block& b) {
  const float d = fp16_to_float(b.d);
  const float dmin = fp16_to_float(b.dmin);
  for (int s = 0; s < kKSubBlocks; ++s) {
    int scale = b.scales[s] & 63;
    int min = b.scales[(s + 4) % 12] & 63;
    if (s >= 4) {
      scale = (b.scales[s + 4] & 15) | b.scales[s - 4] >> 6 << 4;
      min = b.scales[s + 4] >> 4 | b.scales[s] >> 6 << 4;
    }
    out.d[2 * s] = out.d[2 * s + 1] = d * static_cast<float>(scale);
    out.m[2 * s] = out.m[2 * s + 1] = -(dmin * static_cast<float>(min));
  }
}

}  // namespace

void unpack_block(KValues& out, const BlockQ2_K& b) {
  unpack_codes(out, kQ2KLayout, b.low, nullptr);
  for (int k = 0; k < kScales; ++k) {
    out.d[k] = fp16_to_float(b.d) * static_cast<float>(b.scales[k] & 15);
    out.m[k] = -(fp16_to_float(b.dmin) * static_cast<float>(b.scales[k] >> 4));
  }
}

void unpack_block(KValues& out, const BlockQ3_K& b) {
  unpack_codes(out, kQ3KLayout, b.low, b.high);
  for (int k = 0; k < kScales; ++k) {
    const int low = b.scales[k % 8] >> 4 * (k / 8) & 15;
    const int scale = low | (b.scales[8 + k % 4] >> 2 * (k / 4) & 3) << 4;
    out.d[k] = fp16_to_float(b.d) * static_cast<float>(scale - 32);
    out.m[k] = kNoMin;
  }
}

void unpack_block(KValues& out, const BlockQ4_K& b) {
  unpack_codes(out, kQ4KLayout, b.low, nullptr);
  unpack_scales_and_minima(out, b);
}

void unpack_block(KValues& out, const BlockQ5_K& b) {
  unpack_codes(out, kQ5KLayout, b.low, b.high);
  unpack_scales_and_minima(out, b);
}

void unpack_block(KValues& out, const BlockQ6_K& b) {
  unpack_codes(out, kQ6KLayout, b.low, b.high);
  for (int k = 0; k < kScales; ++k) {
    out.d[k] = fp16_to_float(b.d) * static_cast<float>(b.scales[k]);
    out.m[k] = kNoMin;
  }
}

}  // namespace octavo::ops
