// Rotates queries and keys and writes keys and values into the cache.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/kv_write_launch.h"
#include "backends/cuda/tile/rope_turn.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kMaxThreads = 512;
constexpr float kLargestE4M3 = 448.0f;

enum class Store { kBf16, kFp8, kFp8TokenHead };

// 16 values of a head: 8 and the 8 that they are rotated with, or any 16 where nothing rotates.
struct Values {
  float first[8];
  float second[8];
};

__device__ void load_8(float (&to)[8], const __nv_bfloat16* from) {
  const uint4 words = *reinterpret_cast<const uint4*>(from);
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&words);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    to[2 * i] = pair.x;
    to[2 * i + 1] = pair.y;
  }
}

__device__ void store_8(__nv_bfloat16* to, const float (&from)[8]) {
  uint4 words;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&words);
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
  *reinterpret_cast<uint4*>(to) = words;
}

__device__ void store_8(__nv_fp8_storage_t* to, const float (&from)[8], float inverse_scale) {
  uint2 words;
  auto* pairs = reinterpret_cast<__nv_fp8x2_storage_t*>(&words);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = {from[2 * i] * inverse_scale, from[2 * i + 1] * inverse_scale};
    pairs[i] = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
  }
  *reinterpret_cast<uint2*>(to) = words;
}

__device__ void rotate(Values& values, const float2* turns) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float2 by = turns[i];
    const float x = values.first[i], y = values.second[i];
    values.first[i] = x * by.x - y * by.y;
    values.second[i] = y * by.x + x * by.y;
  }
}

// The scale that brings the largest value of a head to the largest of E4M3. All threads of a head
// call it; at least the least normal number, so that its inverse is finite.
__device__ float find_scale(const Values& values, int lane_shift) {
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    largest = fmaxf(largest, fmaxf(fabsf(values.first[i]), fabsf(values.second[i])));
  }
  for (int lanes = 1 << lane_shift >> 1; lanes > 0; lanes /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  }
  return fmaxf(largest * (1.0f / kLargestE4M3), 0x1.0p-126f);
}

// Where a thread's 16 values stand in their head.
struct Part {
  int first_dim, second_dim;
  bool rotates;

  __device__ Part(const KvWriteArgs& args, int lane) : rotates(lane < args.rotary_dim / 16) {
    first_dim = rotates ? 8 * lane : 16 * lane;
    second_dim = first_dim + (rotates ? args.rotary_dim / 2 : 8);
  }
};

template <Store kStore>
__device__ void store_row(const KvWriteArgs& args, bool is_value, int64_t row, int kv_head,
                          const Part& part, const Values& values, float found_scale) {
  void* cache = is_value ? args.v_cache : args.k_cache;
  if constexpr (kStore == Store::kBf16) {
    auto* to = static_cast<__nv_bfloat16*>(cache) + row * args.head_dim;
    store_8(to + part.first_dim, values.first);
    store_8(to + part.second_dim, values.second);
  } else {
    float* scales = is_value ? args.v_scale : args.k_scale;
    float scale = found_scale;
    if constexpr (kStore == Store::kFp8TokenHead) {
      if (part.first_dim == 0) scales[row] = scale;
    } else {
      const int index = args.scale_kind == KvScale::kHead ? kv_head : 0;
      scale = scales != nullptr ? scales[index] : 1.0f;
    }
    auto* to = static_cast<__nv_fp8_storage_t*>(cache) + row * args.head_dim;
    store_8(to + part.first_dim, values.first, 1.0f / scale);
    store_8(to + part.second_dim, values.second, 1.0f / scale);
  }
}

// One block a token. Its heads, those of q, then of k, then of v, are dealt out to the threads.
template <Store kStore>
__global__ void __launch_bounds__(kMaxThreads)
    write_kv_kernel(const __grid_constant__ KvWriteLaunch write) {
  __shared__ float2 turns[kMaxKvHeadDim / 2];
  const KvWriteArgs& args = write.args;
  const auto token = static_cast<int64_t>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  pdl_launch_next();
  const int64_t slot = args.slot_mapping[token];
  const bool padding = slot < 0 || slot >= args.num_blocks * args.block_size;
  if (!padding && args.rotary_dim > 0) {
    const int position = args.positions[token];
    for (int i = thread; i < args.rotary_dim / 2; i += threads) {
      turns[i] = rope_turn(args.inv_freq[i], position, args.attention_factor);
    }
  }
  __syncthreads();
  pdl_wait();  // padding too: the kernel after this one waits for this one only
  if (padding) return;

  const int block = write.block_size.divide(static_cast<int>(slot));
  const int slot_in_block = write.block_size.remainder(static_cast<int>(slot));
  const int num_items = (args.num_heads + 2 * args.num_kv_heads) << write.lane_shift;
  for (int item = thread; item - thread % 32 < num_items; item += threads) {
    const int lane = item & ((1 << write.lane_shift) - 1);
    int head = item >> write.lane_shift;
    const bool active = item < num_items && lane < args.head_dim / 16;
    const bool is_query = head < args.num_heads;
    head -= is_query ? 0 : args.num_heads;
    const bool is_value = !is_query && head >= args.num_kv_heads;
    head -= is_value ? args.num_kv_heads : 0;

    const Part part(args, lane);
    Values values = {};
    auto* from = static_cast<const __nv_bfloat16*>(is_query ? args.q : is_value ? args.v : args.k);
    from += token * (is_query   ? args.q_stride
                     : is_value ? args.v_stride
                                : args.k_stride) +
            head * args.head_dim;
    if (active) {
      load_8(values.first, from + part.first_dim);
      load_8(values.second, from + part.second_dim);
      if (part.rotates && !is_value) rotate(values, turns + part.first_dim);
    }
    float scale = 0.0f;
    if constexpr (kStore == Store::kFp8TokenHead) scale = find_scale(values, write.lane_shift);
    if (!active) continue;
    if (is_query) {
      if (!part.rotates) continue;
      auto* to = const_cast<__nv_bfloat16*>(from);
      store_8(to + part.first_dim, values.first);
      store_8(to + part.second_dim, values.second);
    } else {
      const int64_t row =
          (int64_t{block} * args.num_kv_heads + head) * args.block_size + slot_in_block;
      store_row<kStore>(args, is_value, row, head, part, values, scale);
    }
  }
}

}  // namespace

void launch_write_kv(const KvWriteLaunch& write, cudaStream_t stream, bool overlap_previous) {
  const KvWriteArgs& args = write.args;
  // As few rounds as a block can make of all heads, of equal length.
  const int num_items = (args.num_heads + 2 * args.num_kv_heads) << write.lane_shift;
  const int rounds = (num_items + kMaxThreads - 1) / kMaxThreads;
  const int threads = ((num_items + rounds - 1) / rounds + 31) / 32 * 32;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(args.num_tokens)),
                             .block = dim3(static_cast<unsigned>(threads)),
                             .overlap_previous = overlap_previous};
  auto kernel = write_kv_kernel<Store::kBf16>;
  if (args.kv_dtype == DType::kF8E4M3) {
    kernel = args.scale_kind == KvScale::kTokenHead ? write_kv_kernel<Store::kFp8TokenHead>
                                                    : write_kv_kernel<Store::kFp8>;
  }
  launch("write_kv", kernel, shape, stream, write);
}

}  // namespace octavo::backends::cuda
