// A block takes a few rows of a matrix for all tokens: its threads go along the rows, eight values
// each at a time, and add up what they have at the end.
#include <algorithm>

#include "backends/cuda/few_tokens.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/activate.cuh"
#include "backends/cuda/tile/values.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = 4;  // of matrices, for each block
constexpr int kValues = 8;

struct Matrix {
  const __nv_bfloat16* w;
  const float* bias;  // or null
  void* out;
  int64_t out_stride;
  int rows;
  int first_block;  // that computes rows of it
};

struct Call {
  Matrix matrices[kMaxMatrices];
  int num_matrices;
  const __nv_bfloat16* x;
  int64_t x_stride;
  int in_features;
  int num_tokens;
  bool accumulate;
  ops::Activation activation;
};

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

// The block's rows: of one matrix, or half of them of each of two.
template <bool kGated>
struct BlockRows {
  const Matrix* matrix;
  int first_row;

  __device__ explicit BlockRows(const Call& call) : matrix(&call.matrices[0]) {
    const auto block = static_cast<int>(blockIdx.x);
    if constexpr (!kGated) {
      while (matrix + 1 < call.matrices + call.num_matrices && block >= matrix[1].first_block) {
        ++matrix;
      }
    }
    first_row = (block - matrix->first_block) * (kGated ? kRows / 2 : kRows);
  }
  __device__ const Matrix& matrix_of(int i) const {
    return kGated && i >= kRows / 2 ? matrix[1] : *matrix;
  }
  __device__ int row_of(int i) const { return first_row + (kGated ? i % (kRows / 2) : i); }
  // Beyond the last row the last is read again, and nothing is stored.
  __device__ const __nv_bfloat16* weights(int i, int in_features) const {
    const int row = min(row_of(i), matrix->rows - 1);
    return matrix_of(i).w + static_cast<int64_t>(row) * in_features;
  }
};

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

template <bool kGated, typename Out>
__device__ void finish(const Call& call, const BlockRows<kGated>& rows, const float* total,
                       int index, int first_token) {
  const int token = first_token + index / kRows, i = index % kRows;
  if (token >= call.num_tokens || rows.row_of(i) >= rows.matrix->rows) return;
  if (kGated && i >= kRows / 2) return;
  const auto with_bias = [&](int of) {
    const float* bias = rows.matrix_of(of).bias;
    return total[index / kRows * kRows + of] + (bias != nullptr ? bias[rows.row_of(of)] : 0.0f);
  };
  float value = with_bias(i);
  if constexpr (kGated) {  // rounded as they are where both are stored first
    const auto round = [](float x) { return __bfloat162float(__float2bfloat16_rn(x)); };
    value = activate(round(value), call.activation) * round(with_bias(i + kRows / 2));
  }
  Out* out = static_cast<Out*>(rows.matrix->out) + token * rows.matrix->out_stride + rows.row_of(i);
  if (call.accumulate) value += load<1>(out).v[0];
  store<1>(out, {value});
}

// kTokens tokens from first_token on; rows of x beyond the last are read as the last.
template <int kTokens, bool kGated, typename Out>
__global__ void __launch_bounds__(kThreads)
    few_tokens_kernel(const __grid_constant__ Call call, int first_token) {
  __shared__ float scratch[kWarps][kTokens * kRows];
  __shared__ float total[kTokens * kRows];
  const BlockRows<kGated> rows(call);
  const __nv_bfloat16* w[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) w[i] = rows.weights(i, call.in_features);
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
    finish<kGated, Out>(call, rows, total, static_cast<int>(threadIdx.x), first_token);
  }
}

// The same for rows of any length and alignment, value by value.
template <bool kGated, typename Out>
__global__ void __launch_bounds__(kThreads)
    any_shape_kernel(const __grid_constant__ Call call, int first_token) {
  __shared__ float scratch[kWarps][kRows];
  __shared__ float total[kRows];
  pdl_launch_next();
  pdl_wait();
  const BlockRows<kGated> rows(call);
  const __nv_bfloat16* x = call.x + first_token * call.x_stride;
  float sums[1][kRows] = {};
  for (int k = static_cast<int>(threadIdx.x); k < call.in_features; k += kThreads) {
    const float value = __bfloat162float(x[k]);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      sums[0][i] += __bfloat162float(rows.weights(i, call.in_features)[k]) * value;
    }
  }
  add_up<1>(sums, total, scratch);
  if (threadIdx.x < kRows) {
    finish<kGated, Out>(call, rows, total, static_cast<int>(threadIdx.x), first_token);
  }
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

bool fits_eights(const Call& call) {
  bool fits = call.in_features % kValues == 0 && call.x_stride % kValues == 0 && is_aligned(call.x);
  for (int i = 0; i < call.num_matrices; ++i) fits = fits && is_aligned(call.matrices[i].w);
  return fits;
}

template <bool kGated, typename Out>
void run(const Call& call, unsigned blocks, cudaStream_t stream) {
  const LaunchShape shape = {
      .grid = dim3(blocks), .block = dim3(kThreads), .overlap_previous = true};
  const bool eights = fits_eights(call);
  for (int first = 0; first < call.num_tokens;) {
    const int left = call.num_tokens - first;
    auto kernel = any_shape_kernel<kGated, Out>;
    int taken = 1;
    if (eights) {
      taken = left >= 3 ? 4 : left;
      kernel = taken == 4   ? few_tokens_kernel<4, kGated, Out>
               : taken == 2 ? few_tokens_kernel<2, kGated, Out>
                            : few_tokens_kernel<1, kGated, Out>;
    }
    launch("few_tokens", kernel, shape, stream, call, first);
    first += taken;
  }
}

}  // namespace

void multiply_few_tokens(const FewTokensArgs& args, cudaStream_t stream) {
  if (args.x.rows == 0) return;
  Call call = {};
  call.x = static_cast<const __nv_bfloat16*>(args.x.data);
  call.x_stride = args.x.stride;
  call.in_features = static_cast<int>(args.x.cols);
  call.num_tokens = static_cast<int>(args.x.rows);
  call.accumulate = args.accumulate;
  call.activation = args.activation;
  const int rows_each = args.gated ? kRows / 2 : kRows;
  int blocks = 0;
  for (int i = 0; i < kMaxMatrices && args.w[i] != nullptr; ++i) {
    const ops::Weight& w = *args.w[i];
    OCTAVO_CHECK(w.dtype == DType::kBF16 && args.x.dtype == DType::kBF16 && w.cols == args.x.cols);
    OCTAVO_CHECK(args.out[i].dtype == args.out[0].dtype || (args.gated && i == 1));
    call.matrices[call.num_matrices++] = {reinterpret_cast<const __nv_bfloat16*>(w.data),
                                          args.bias[i],
                                          args.out[i].data,
                                          args.out[i].stride,
                                          static_cast<int>(w.rows),
                                          blocks};
    if (!args.gated || i == 0) blocks += (static_cast<int>(w.rows) + rows_each - 1) / rows_each;
  }
  with_type(args.out[0].dtype, [&]<typename Out>() {
    if (args.gated) {
      run<true, Out>(call, static_cast<unsigned>(blocks), stream);
    } else {
      run<false, Out>(call, static_cast<unsigned>(blocks), stream);
    }
  });
}

}  // namespace octavo::backends::cuda
