// What a computing warpgroup of the prefill kernel knows of its 64 rows of a tile: which keys they
// see, and where their results go.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/ptx/wgmma.cuh"
#include "backends/cuda/sm90/attention_prefill_shared.cuh"
#include "backends/cuda/tile/prefill_softmax.cuh"

namespace octavo::backends::cuda {

__device__ __forceinline__ int warpgroup_thread() {
  return static_cast<int>(threadIdx.x) % 128;
}

// The row in its tile of the thread's r-th row, r = 0 or 1.
__device__ __forceinline__ int tile_row(int group, int r) {
  return group * 64 + accumulator_row(warpgroup_thread(), 2 * r);
}

// The keys that the thread's two rows see: low .. high - 1, counted from the thread's first column
// in block n. Worked out anew for every masked block: they are few, and registers are scarcer.
template <typename Config>
__device__ __forceinline__ VisibleKeys visible_keys(const PrefillParams& params, uint32_t item,
                                                    int group, int n) {
  const int position = load_shared_word(item + 4 * kPositionWord);
  const int num_keys = load_shared_word(item + 4 * kNumKeysWord);
  const int origin = n * Config::kBlockN + accumulator_column(warpgroup_thread(), 0);
  VisibleKeys keys;
  for (int r = 0; r < 2; ++r) {
    const int row_position = position + (tile_row(group, r) >> params.pack_log2);
    keys.low[r] = lowest_key(params.mask, row_position) - origin;
    keys.high[r] = highest_key(params.mask, row_position, num_keys) + 1 - origin;
  }
  return keys;
}

// Rows of a V tile past the sequence's end become zeros: the weights there are zeros, but zero
// times what lies there need not be. Each warpgroup does it for itself before it reads the tile.
template <typename Config>
__device__ __forceinline__ void clear_tail(uint32_t tile, int first_row, int group) {
  constexpr int kChunks = kPanelRowBytes / 16;
  for (int i = first_row * kChunks + warpgroup_thread(); i < Config::kBlockN * kChunks; i += 128) {
    for (int panel = 0; panel < Config::kPanels; ++panel) {
      const uint32_t address = tile + panel * Config::kBlockN * kPanelRowBytes + i * 16;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
    }
  }
  fence_async_shared();
  named_barrier_sync(kTailBarrier + group, 128);
}

__device__ __forceinline__ OutputTile output_tile(const PrefillParams& params, uint32_t item) {
  return {load_shared_word(item + 4 * kQRowWord), load_shared_word(item + 4 * kNumTokensWord),
          load_shared_word(item + 4 * kUnitWord) << params.pack_log2};
}

template <int kHeadDim>
__device__ __forceinline__ void store_tile(const PrefillParams& params, const OutputTile& tile,
                                           int group, const float (&o)[kHeadDim / 2],
                                           const SoftmaxRows& rows, float scale_log2,
                                           float value_scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    store_row<kHeadDim>(params, tile, tile_row(group, r), r, o, rows, scale_log2, value_scale);
  }
}

// The answer to a tile that sees no keys.
template <int kHeadDim>
__device__ __forceinline__ void store_nothing(const PrefillParams& params, const OutputTile& tile,
                                              int group) {
  for (int r = 0; r < 2; ++r) {
    const int row = tile_row(group, r);
    const int head = tile.first_head + (row & ((1 << params.pack_log2) - 1));
    const int token = row >> params.pack_log2;
    if (token >= tile.num_tokens) continue;
    const int quad = warpgroup_thread() % 4;
    const int64_t out_row = static_cast<int64_t>(tile.q_row) + token;
    if (params.lse != nullptr && quad == 0) {
      params.lse[static_cast<int64_t>(head) * params.num_tokens + out_row] = -INFINITY;
    }
    auto* out = params.out + (out_row * params.num_heads + head) * kHeadDim + quad * 8;
    for (int column = 0; column < kHeadDim; column += 32) {
      *reinterpret_cast<uint4*>(out + column) = make_uint4(0, 0, 0, 0);
    }
  }
}

}  // namespace octavo::backends::cuda
