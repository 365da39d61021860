#include "backends/cpu/row_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/for_rows.h"
#include "backends/cpu/pack_lanes.h"
#include "base/check.h"
#include "ops/decode_row.h"
#include "tensor/float16.h"

namespace octavo::backends::cpu {
namespace {

// An exponential makes a value about as costly as eight plain ones.
constexpr int64_t kExponentialCost = 8;

// Sixteen partial sums, one for each i % 16: a fixed order that the compiler can keep in vectors.
float sum_of_squares(const float* x, int64_t count) {
  constexpr int kSums = 16;
  float sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int j = 0; j < kSums; ++j) sums[j] += x[i + j] * x[i + j];
  }
  for (int j = 0; i < count; ++i, ++j) sums[j] += x[i] * x[i];
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

void store_codes(std::byte* row, const float* src, int64_t count) {
  // As integers magnitudes keep their order, with infinity and NaN above the rest.
  constexpr uint32_t kInfinity = 0x7F800000;
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(src[i]) & 0x7FFFFFFF);
  }
  float scale = std::bit_cast<float>(largest) / 127;
  if (largest >= kInfinity) scale = std::numeric_limits<float>::quiet_NaN();
  if (largest < std::bit_cast<uint32_t>(ops::kLeastKvMagnitude)) scale = 0;
  auto* codes = reinterpret_cast<int8_t*>(row);
  if (scale > 0) {
    for (int64_t i = 0; i < count; ++i) {
      codes[i] = static_cast<int8_t>(static_cast<int32_t>(std::nearbyint(src[i] / scale)));
    }
  } else {
    std::memset(codes, 0, count);
  }
  std::memcpy(row + count, &scale, sizeof(scale));
}

void store_row(std::byte* row, DType dtype, const float* src, int64_t count) {
  if (dtype == DType::kI8) return store_codes(row, src, count);
  if (dtype == DType::kF32) {
    std::memcpy(row, src, count * sizeof(float));
    return;
  }
  auto* dst = reinterpret_cast<uint16_t*>(row);
  if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < count; ++i) dst[i] = float_to_bf16(src[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) dst[i] = float_to_fp16(src[i]);
  }
}

void decode_table_row(const ops::Weight& table, int64_t row, ops::DecodeRowFn decode, float* out) {
  if (table.layout == ops::PackedLayout::kRowMajor) {
    decode(table.row(row), out, table.cols);
    return;
  }
  constexpr int64_t kRunBytes = 512;
  std::byte run[kRunBytes];
  const PackedUnit unit = packed_unit(table.dtype);
  OCTAVO_DCHECK(unit.bytes <= kRunBytes);
  const int64_t units = table.cols / unit.values;
  for (int64_t begin = 0; begin < units;) {
    const int64_t count = std::min(kRunBytes / unit.bytes, units - begin);
    for (int64_t i = 0; i < count; ++i)
      copy_packed_unit(run + i * unit.bytes, table, row, begin + i);
    decode(run, out + begin * unit.values, count * unit.values);
    begin += count;
  }
}

}  // namespace

void embed(ops::ExecContext& ctx, const ops::EmbedArgs& a) {
  const ops::DecodeRowFn decode = ops::decode_row_fn(a.table->dtype);
  for_rows(ctx, a.out.rows, a.out.cols, [&](int64_t t) {
    float* out = a.out.row<float>(t);
    decode_table_row(*a.table, a.token_ids[t], decode, out);
    ops::scale_values(*a.table, a.token_ids[t], 0, a.table->cols, out);
    for (int64_t i = 0; a.scale != 1 && i < a.out.cols; ++i) out[i] *= a.scale;
  });
}

void rms_norm_row(float* out, const float* x, const float* weight, float eps, int64_t cols) {
  const float mean = sum_of_squares(x, cols) / static_cast<float>(cols);
  const float scale = 1 / std::sqrt(mean + eps);
  for (int64_t i = 0; i < cols; ++i) out[i] = x[i] * scale * weight[i];
}

void rms_norm(ops::ExecContext& ctx, const ops::RmsNormArgs& a) {
  for_rows(ctx, a.x.rows, a.x.cols, [&](int64_t t) {
    rms_norm_row(a.out.row<float>(t), a.x.row<float>(t), a.weight, a.eps, a.x.cols);
  });
}

void write_kv(ops::ExecContext& ctx, const ops::WriteKvArgs& a) {
  const ops::PagedKv& kv = a.kv;
  for_rows(ctx, a.k.rows, 2 * a.k.cols, [&](int64_t t) {
    const int64_t block = a.slot_mapping[t] / kv.block_size;
    const int64_t slot = a.slot_mapping[t] % kv.block_size;
    for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
      const int64_t source = h * kv.head_dim;
      store_row(kv.row(kv.k, block, h, slot), kv.dtype, a.k.row<float>(t) + source, kv.head_dim);
      store_row(kv.row(kv.v, block, h, slot), kv.dtype, a.v.row<float>(t) + source, kv.head_dim);
    }
  });
}

void scale_queries(ops::ExecContext& ctx, const ops::ScaleQueriesArgs& a) {
  for_rows(ctx, a.x.rows, a.x.cols, [&](int64_t t) {
    const double steps = std::floor((a.positions[t] + 1.0) / a.floor_scale);
    const auto scale = static_cast<float>(1 + a.attn_scale * std::log(1 + steps));
    float* x = a.x.row<float>(t);
    for (int64_t i = 0; i < a.x.cols; ++i) x[i] *= scale;
  });
}

void activation_mul(ops::ExecContext& ctx, const ops::ActivationMulArgs& a,
                    const FloatKernels& kernels) {
  const auto fn = a.activation == ops::Activation::kSilu ? kernels.silu_mul : kernels.gelu_tanh_mul;
  for_rows(ctx, a.gate.rows, kExponentialCost * a.gate.cols, [&](int64_t t) {
    fn(a.out.row<float>(t), a.gate.row<float>(t), a.up.row<float>(t), a.gate.cols);
  });
}

void softcap(ops::ExecContext& ctx, const ops::SoftcapArgs& a, const FloatKernels& kernels) {
  for_rows(ctx, a.x.rows, kExponentialCost * a.x.cols,
           [&](int64_t t) { kernels.softcap(a.x.row<float>(t), a.x.cols, a.cap); });
}

void add(ops::ExecContext& ctx, const ops::AddArgs& a) {
  for_rows(ctx, a.x.rows, a.x.cols, [&](int64_t t) {
    const float* x = a.x.row<float>(t);
    float* out = a.out.row<float>(t);
    for (int64_t i = 0; i < a.x.cols; ++i) out[i] += x[i];
  });
}

void gather_rows(ops::ExecContext& ctx, const ops::GatherRowsArgs& a) {
  for_rows(ctx, a.out.rows, a.out.cols, [&](int64_t i) {
    const float* x = a.x.row<float>(a.row_ids[i]);
    float* out = a.out.row<float>(i);
    if (a.scales == nullptr) {
      std::memcpy(out, x, a.out.cols * sizeof(float));
    } else {
      for (int64_t j = 0; j < a.out.cols; ++j) out[j] = a.scales[i] * x[j];
    }
  });
}

}  // namespace octavo::backends::cpu
