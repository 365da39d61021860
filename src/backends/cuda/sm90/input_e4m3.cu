// A block takes a row: it finds the largest magnitude, then makes the values anew and rounds them;
// the second time they come from the first cache.
#include "backends/cuda/input_e4m3.h"

#include <algorithm>

#include "backends/cuda/launch.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/activate.cuh"
#include "backends/cuda/tile/round_e4m3.cuh"
#include "backends/cuda/tile/values.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kWidth = 4;

__device__ float as_bf16(float value) {
  return __bfloat162float(__float2bfloat16_rn(value));
}

// Of all threads of the block, to all; `scratch` is for this call alone.
template <typename Combine>
__device__ float combine_block(float value, float (&scratch)[kMaxThreads / 32],
                               const Combine& combine) {
  const auto combine_warp = [&](float of) {
    for (int lanes = 16; lanes > 0; lanes /= 2) of = combine(of, __shfl_xor_sync(~0u, of, lanes));
    return of;
  };
  value = combine_warp(value);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;  // no value is negative
  return combine_warp(lane < blockDim.x / 32 ? scratch[lane] : 0.0f);
}

// Calls visit(col) for every fourth column of a row, each in one thread.
template <typename Visit>
__device__ void each_four(int64_t cols, const Visit& visit) {
  for (int64_t col = threadIdx.x * kWidth; col < cols; col += blockDim.x * kWidth) visit(col);
}

struct PlainRows {
  Rows<const __nv_bfloat16> x;

  __device__ void prepare(int64_t, int64_t) {}
  __device__ Values<kWidth> at(int64_t row, int64_t col) const {
    return load<kWidth>(x.at(row, col));
  }
};

template <typename T>
struct NormedRows {
  Rows<const T> x;
  const float* weight;
  float eps;
  float by_cols;  // 1 / cols
  float scale = 0;

  __device__ void prepare(int64_t row, int64_t cols) {
    __shared__ float scratch[kMaxThreads / 32];
    float sum = 0.0f;
    each_four(cols, [&](int64_t col) {
      const Values<kWidth> values = load<kWidth>(x.at(row, col));
      for (const float value : values.v) sum += value * value;
    });
    sum = combine_block(sum, scratch, [](float a, float b) { return a + b; });
    scale = rsqrtf(sum * by_cols + eps);
  }
  __device__ Values<kWidth> at(int64_t row, int64_t col) const {
    Values<kWidth> values = load<kWidth>(x.at(row, col));
    const Values<kWidth> factors = load<kWidth>(weight + col);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.v[i] = as_bf16(values.v[i] * scale * factors.v[i]);
    return values;
  }
};

struct GatedRows {
  Rows<const __nv_bfloat16> gate, up;
  ops::Activation activation;

  __device__ void prepare(int64_t, int64_t) {}
  __device__ Values<kWidth> at(int64_t row, int64_t col) const {
    Values<kWidth> values = load<kWidth>(gate.at(row, col));
    const Values<kWidth> factors = load<kWidth>(up.at(row, col));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values.v[i] = as_bf16(activate(values.v[i], activation) * factors.v[i]);
    }
    return values;
  }
};

template <typename Source>
__global__ void __launch_bounds__(kMaxThreads)
    round_rows_kernel(Source source, E4M3Rows out, ops::InputForm form) {
  __shared__ float scratch[kMaxThreads / 32];
  pdl_launch_next();
  pdl_wait();
  const int64_t row = blockIdx.x;
  source.prepare(row, out.cols);
  float largest = 0.0f;
  if (form.rounding == ops::InputRounding::kDynamicE4M3) {
    each_four(out.cols, [&](int64_t col) {
      const Values<kWidth> values = source.at(row, col);
      for (const float value : values.v) largest = fmaxf(largest, fabsf(value));
    });
    largest = combine_block(largest, scratch, [](float a, float b) { return fmaxf(a, b); });
  }
  const RowScale scale(input_scale(form, largest));
  if (threadIdx.x == 0) out.scales[row] = scale.scale;
  auto* codes = reinterpret_cast<uint32_t*>(out.codes + row * out.cols);
  each_four(out.cols, [&](int64_t col) {
    const Values<kWidth> values = source.at(row, col);
    codes[col / kWidth] =
        scale.round(values.v[0], values.v[1]) | scale.round(values.v[2], values.v[3]) << 16;
  });
}

template <typename Source>
void round_rows(ops::ExecContext& ctx, const E4M3Rows& out, const ops::InputForm& form,
                const Source& source) {
  if (out.rows == 0) return;
  OCTAVO_CHECK(out.cols % kWidth == 0);
  const int64_t threads = std::min<int64_t>((out.cols / kWidth + 31) / 32 * 32, kMaxThreads);
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(out.rows)),
                             .block = dim3(static_cast<unsigned>(threads)),
                             .overlap_previous = true};
  launch("round_rows", round_rows_kernel<Source>, shape, stream_of(ctx), source, out, form);
}

}  // namespace

E4M3Rows e4m3_rows(const ops::ExecContext& ctx, int64_t offset, int64_t rows, int64_t cols) {
  constexpr int64_t kAlignment = 64;
  const auto aligned = [](int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  const int64_t codes = aligned(offset), scales = codes + aligned(rows * cols);
  OCTAVO_CHECK(scales + rows * static_cast<int64_t>(sizeof(float)) <= ctx.workspace_bytes);
  return {reinterpret_cast<uint8_t*>(ctx.workspace + codes),
          reinterpret_cast<float*>(ctx.workspace + scales), rows, cols};
}

bool reads_fours(const ops::Mat& x) {
  return takes_fours(x);
}

void round_input(ops::ExecContext& ctx, const E4M3Rows& out, const ops::Mat& x,
                 const ops::InputForm& form) {
  OCTAVO_CHECK(x.dtype == DType::kBF16 && takes_fours(x));
  round_rows(ctx, out, form, PlainRows{Rows<const __nv_bfloat16>(x)});
}

void round_norm(ops::ExecContext& ctx, const E4M3Rows& out, const ops::RmsNormArgs& a,
                const ops::InputForm& form) {
  OCTAVO_CHECK(takes_fours(a.x));
  with_type(a.x.dtype, [&]<typename T>() {
    round_rows(
        ctx, out, form,
        NormedRows<T>{Rows<const T>(a.x), a.weight, a.eps, 1.0f / static_cast<float>(a.x.cols)});
  });
}

void round_gated(ops::ExecContext& ctx, const E4M3Rows& out, const ops::ActivationMulArgs& a,
                 const ops::InputForm& form) {
  OCTAVO_CHECK(a.gate.dtype == DType::kBF16 && a.up.dtype == DType::kBF16);
  OCTAVO_CHECK(takes_fours(a.gate) && takes_fours(a.up));
  round_rows(
      ctx, out, form,
      GatedRows{Rows<const __nv_bfloat16>(a.gate), Rows<const __nv_bfloat16>(a.up), a.activation});
}

}  // namespace octavo::backends::cuda
