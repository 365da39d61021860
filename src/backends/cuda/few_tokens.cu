// A block takes a few rows of a matrix for all tokens: its threads go along the rows, eight values
// each at a time, and add up what they have at the end.
#include "backends/cuda/few_tokens.h"
#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/few_tokens_wgmma.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/product.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = 4;  // of matrices, for each block
constexpr int kValues = 8;

using Tile = ProductTile<kRows>;

__device__ const __nv_bfloat16* row_of(const ProductCall& call, const Tile& tile, int i) {
  return reinterpret_cast<const __nv_bfloat16*>(tile.weights(i, call.row_bytes));
}

// Eight values that are read once: they need not stay in the first cache.
__device__ uint4 load_weights(const __nv_bfloat16* from) {
  uint4 words;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
      : "l"(from));
  return words;
}

__device__ float low_half(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ float high_half(uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000);
}

__device__ void multiply_add(float& sum, const uint4& a, const uint4& b) {
  sum = fmaf(low_half(a.x), low_half(b.x), sum);
  sum = fmaf(high_half(a.x), high_half(b.x), sum);
  sum = fmaf(low_half(a.y), low_half(b.y), sum);
  sum = fmaf(high_half(a.y), high_half(b.y), sum);
  sum = fmaf(low_half(a.z), low_half(b.z), sum);
  sum = fmaf(high_half(a.z), high_half(b.z), sum);
  sum = fmaf(low_half(a.w), low_half(b.w), sum);
  sum = fmaf(high_half(a.w), high_half(b.w), sum);
}

// The sums of all threads, by token and row, in `total`.
template <int kTokens>
__device__ void add_up(float (&sums)[kTokens][kRows], float (&total)[kTokens * kRows],
                       float (&scratch)[kWarps][kTokens * kRows]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float sum = sums[t][i];
      for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      if (lane == 0) scratch[warp][t * kRows + i] = sum;
    }
  }
  __syncthreads();
  if (threadIdx.x < kTokens * kRows) {
    float sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) sum += scratch[w][threadIdx.x];
    total[threadIdx.x] = sum;
  }
  __syncthreads();
}

// Thread `index` stores one of the block's results.
__device__ void finish(const ProductCall& call, const Tile& tile, const float* total, int index,
                       int first_token) {
  const int token = index / kRows, i = index % kRows;
  if (i >= tile.results()) return;
  tile.finish(call, i, first_token + token, [&](int of) { return total[token * kRows + of]; });
}

// kTokens tokens from first_token on; rows of x beyond the last are read as the last.
template <int kTokens>
__global__ void __launch_bounds__(kThreads)
    few_tokens_kernel(const __grid_constant__ ProductCall call, int first_token) {
  __shared__ float scratch[kWarps][kTokens * kRows];
  __shared__ float total[kTokens * kRows];
  const Tile tile(call, static_cast<int>(blockIdx.x));
  const __nv_bfloat16* w[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) w[i] = row_of(call, tile, i);
  const __nv_bfloat16* x[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    x[t] = call.x + min(first_token + t, call.num_tokens - 1) * call.x_stride;
  }
  constexpr int kStep = kThreads * kValues;
  int k = static_cast<int>(threadIdx.x) * kValues;
  // Weights do not depend on the kernel before: the first are on their way while it ends.
  uint4 next[kRows] = {};
  if (k < call.in_features) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) next[i] = load_weights(w[i] + k);
  }
  pdl_launch_next();
  pdl_wait();
  float sums[kTokens][kRows] = {};
  for (; k < call.in_features; k += kStep) {
    uint4 now[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) now[i] = next[i];
    if (k + kStep < call.in_features) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) next[i] = load_weights(w[i] + k + kStep);
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const uint4 values = *reinterpret_cast<const uint4*>(x[t] + k);
#pragma unroll
      for (int i = 0; i < kRows; ++i) multiply_add(sums[t][i], now[i], values);
    }
  }
  add_up<kTokens>(sums, total, scratch);
  if (threadIdx.x < kTokens * kRows) {
    finish(call, tile, total, static_cast<int>(threadIdx.x), first_token);
  }
}

// The same for rows of any length and alignment, value by value.
__global__ void __launch_bounds__(kThreads)
    any_shape_kernel(const __grid_constant__ ProductCall call, int first_token) {
  __shared__ float scratch[kWarps][kRows];
  __shared__ float total[kRows];
  pdl_launch_next();
  pdl_wait();
  const Tile tile(call, static_cast<int>(blockIdx.x));
  const __nv_bfloat16* x = call.x + first_token * call.x_stride;
  float sums[1][kRows] = {};
  for (int k = static_cast<int>(threadIdx.x); k < call.in_features; k += kThreads) {
    const float value = __bfloat162float(x[k]);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      sums[0][i] += __bfloat162float(row_of(call, tile, i)[k]) * value;
    }
  }
  add_up<1>(sums, total, scratch);
  if (threadIdx.x < kRows) finish(call, tile, total, static_cast<int>(threadIdx.x), first_token);
}

}  // namespace

bool takes_few_tokens(const FewTokensArgs& args) {
  return (args.x.rows <= kFewTokens && args.w[0]->dtype == DType::kBF16) ||
         streams_few_tokens(args) || multiplies_by_wgmma(args);
}

void multiply_few_tokens(const FewTokensArgs& args, cudaStream_t stream) {
  if (args.x.rows == 0) return;
  OCTAVO_CHECK(args.x.dtype == DType::kBF16);
  if (streams_few_tokens(args)) return multiply_few_tokens_streamed(args, stream);
  if (multiplies_by_wgmma(args)) {
    return multiply_few_tokens_wgmma(args, plan_wgmma(args), stream);
  }
  OCTAVO_CHECK(args.w[0]->dtype == DType::kBF16);
  const ProductCall call = make_product_call(args, kRows);
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(call.num_tiles)),
                             .block = dim3(kThreads),
                             .overlap_previous = true};
  const bool sixteen_bytes = reads_sixteen_bytes(call);
  for (int first = 0; first < call.num_tokens;) {
    const int left = call.num_tokens - first;
    auto kernel = any_shape_kernel;
    int taken = 1;
    if (sixteen_bytes) {
      taken = left >= 3 ? 4 : left;
      kernel = taken == 4   ? few_tokens_kernel<4>
               : taken == 2 ? few_tokens_kernel<2>
                            : few_tokens_kernel<1>;
    }
    launch("few_tokens", kernel, shape, stream, call, first);
    first += taken;
  }
}

}  // namespace octavo::backends::cuda
