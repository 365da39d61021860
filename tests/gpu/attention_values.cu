#include "tests/gpu/attention_values.h"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "backends/cuda/device_error.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 256;

__device__ uint32_t hash(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + index * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<uint32_t>(z >> 32);
}

__device__ float normal(uint64_t seed, uint64_t index) {
  const float radius = static_cast<float>(hash(seed, 2 * index) | 1) * 0x1.0p-32f;
  const float angle = static_cast<float>(hash(seed, 2 * index + 1)) * 0x1.0p-31f;
  return sqrtf(-2.0f * logf(radius)) * cospif(angle);
}

__global__ void fill_random_bf16_kernel(__nv_bfloat16* values, int64_t count, uint64_t seed) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    values[i] = __float2bfloat16(normal(seed, static_cast<uint64_t>(i)));
  }
}

// Tokens are counted over all sequences.
__global__ void fill_random_cache_kernel(const ReferenceAttentionArgs args, void* cache,
                                         int64_t num_kv_tokens, const int32_t* cu_seqlens_k,
                                         uint64_t seed) {
  int seq = 0;
  for (int64_t token = blockIdx.x; token < num_kv_tokens; token += gridDim.x) {
    while (cu_seqlens_k[seq + 1] <= token) ++seq;
    const int64_t key = token - cu_seqlens_k[seq];
    int64_t head_stride = args.head_dim, begin = token * args.num_kv_heads * args.head_dim;
    if (args.block_table != nullptr) {
      const int64_t block = args.block_table[seq * args.block_table_stride + key / args.block_size];
      head_stride = int64_t{args.block_size} * args.head_dim;
      begin = block * args.num_kv_heads * head_stride + key % args.block_size * args.head_dim;
    }
    const int count = args.num_kv_heads * args.head_dim;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      const int64_t to = begin + i / args.head_dim * head_stride + i % args.head_dim;
      const float value = normal(seed, static_cast<uint64_t>(token * count + i));
      if (args.kv_dtype == DType::kF8E4M3) {
        static_cast<uint8_t*>(cache)[to] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
      } else {
        static_cast<__nv_bfloat16*>(cache)[to] = __float2bfloat16(value);
      }
    }
  }
}

}  // namespace

void fill_random_cache(const ReferenceAttentionArgs& args, void* cache, int64_t num_kv_tokens,
                       const int32_t* cu_seqlens_k, uint64_t seed) {
  fill_random_cache_kernel<<<1024, kThreads>>>(args, cache, num_kv_tokens, cu_seqlens_k, seed);
  check_cuda(cudaGetLastError(), "fill_random_cache");
}

void fill_random_bf16(uint16_t* values, int64_t count, uint64_t seed) {
  fill_random_bf16_kernel<<<1024, kThreads>>>(reinterpret_cast<__nv_bfloat16*>(values), count,
                                              seed);
  check_cuda(cudaGetLastError(), "fill_random_bf16");
}

}  // namespace octavo::backends::cuda
