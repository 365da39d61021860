// Rotation and KV write for any shape of heads (kv_write.h has them fused, for most), and inputs of
// quantised products.
#include <cuda_fp8.h>

#include <algorithm>

#include "backends/cuda/launch.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/tile/rope_turn.cuh"
#include "backends/cuda/tile/values.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr float kLargestE4M3 = 448.0f;

__device__ __nv_fp8_storage_t to_e4m3(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}

__device__ float round_to_e4m3(float value) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(to_e4m3(value), __NV_E4M3)));
}

// One block a token.
template <typename T>
__global__ void __launch_bounds__(kThreads) rope_kernel(Rows<T> x, ops::RopeArgs args, int heads) {
  const int64_t token = blockIdx.x;
  const auto half = static_cast<int>(args.rotary_dim / 2);
  const int64_t variant = args.variants != nullptr ? args.variants[token] : 0;
  const float* inv_freq = args.inv_freq + variant * half;
  for (int i = static_cast<int>(threadIdx.x); i < half * heads; i += kThreads) {
    const int pair = i % half;
    const float2 by = rope_turn(inv_freq[pair], args.positions[token], args.attention_factor);
    T* head = x.at(token, i / half * args.head_dim);
    const float first = load<1>(head + pair).v[0];
    const float second = load<1>(head + pair + half).v[0];
    store<1>(head + pair, {first * by.x - second * by.y});
    store<1>(head + pair + half, {second * by.x + first * by.y});
  }
}

__device__ void store_cached(void* cache, DType dtype, int64_t index, float value) {
  if (dtype == DType::kBF16) {
    static_cast<__nv_bfloat16*>(cache)[index] = __float2bfloat16_rn(value);
  } else {
    static_cast<__nv_fp8_storage_t*>(cache)[index] = to_e4m3(value);
  }
}

// One block a token.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    write_kv_plain_kernel(ops::PagedKv kv, Rows<const T> k, Rows<const T> v,
                          const int64_t* slot_mapping) {
  const int64_t token = blockIdx.x;
  const int64_t block = slot_mapping[token] / kv.block_size;
  const int64_t slot = slot_mapping[token] % kv.block_size;
  for (int64_t i = threadIdx.x; i < kv.num_kv_heads * kv.head_dim; i += kThreads) {
    const int64_t row = (block * kv.num_kv_heads + i / kv.head_dim) * kv.block_size + slot;
    const int64_t index = row * kv.head_dim + i % kv.head_dim;
    store_cached(kv.k, kv.dtype, index, load<1>(k.at(token, i)).v[0]);
    store_cached(kv.v, kv.dtype, index, load<1>(v.at(token, i)).v[0]);
  }
}

// One block a row, a warp at a time for each group of values that share a scale.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    prepare_input_kernel(Rows<T> out, Rows<const T> x, ops::InputForm form, int64_t cols) {
  const int64_t row = blockIdx.x;
  const auto value_at = [&](int64_t i) {
    return load<1>(x.at(row, form.order != nullptr ? form.order[i] : i)).v[0];
  };
  const bool dynamic = form.rounding == ops::InputRounding::kDynamicE4M3;
  const int64_t group = dynamic ? form.group : 32;
  const int64_t lane = threadIdx.x % 32;
  for (int64_t begin = threadIdx.x / 32 * group; begin < cols; begin += kThreads / 32 * group) {
    const int64_t end = begin + group < cols ? begin + group : cols;
    float scale = form.scale;
    if (dynamic) {
      float largest = 0.0f;
      for (int64_t i = begin + lane; i < end; i += 32) largest = fmaxf(largest, fabsf(value_at(i)));
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
      }
      scale = largest == 0.0f ? 1.0f : largest / kLargestE4M3;
      if (form.scale > 0.0f) scale = fminf(scale, form.scale);
    }
    for (int64_t i = begin + lane; i < end; i += 32) {
      float value = value_at(i);
      if (form.rounding != ops::InputRounding::kNone) value = round_to_e4m3(value / scale) * scale;
      store<1>(out.at(row, i), {value});
    }
  }
}

LaunchShape block_for_each_row(int64_t rows) {
  return {.grid = dim3(static_cast<unsigned>(rows)), .block = dim3(kThreads)};
}

}  // namespace

void rope(ops::ExecContext& ctx, const ops::RopeArgs& a) {
  if (a.x.rows == 0) return;
  with_type(a.x.dtype, [&]<typename T>() {
    launch("rope", rope_kernel<T>, block_for_each_row(a.x.rows), stream_of(ctx), Rows<T>(a.x), a,
           static_cast<int>(a.x.cols / a.head_dim));
  });
}

void write_kv_plain(ops::ExecContext& ctx, const ops::WriteKvArgs& a) {
  if (a.k.rows == 0) return;
  OCTAVO_CHECK(a.kv.dtype == DType::kBF16 || a.kv.dtype == DType::kF8E4M3);
  OCTAVO_CHECK(a.k.dtype == a.v.dtype);
  with_type(a.k.dtype, [&]<typename T>() {
    launch("write_kv_plain", write_kv_plain_kernel<T>, block_for_each_row(a.k.rows), stream_of(ctx),
           a.kv, Rows<const T>(a.k), Rows<const T>(a.v), a.slot_mapping);
  });
}

void prepare_input(ops::ExecContext& ctx, const ops::PrepareInputArgs& a) {
  if (a.x.rows == 0) return;
  OCTAVO_CHECK(a.out.dtype == a.x.dtype);
  with_type(a.x.dtype, [&]<typename T>() {
    launch("prepare_input", prepare_input_kernel<T>, block_for_each_row(a.x.rows), stream_of(ctx),
           Rows<T>(a.out), Rows<const T>(a.x), a.form, a.out.cols);
  });
}

}  // namespace octavo::backends::cuda
