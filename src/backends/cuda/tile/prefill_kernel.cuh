// The prefill kernel of every GPU from sm_80 on: FlashAttention-2's scheme. A block of four warps
// takes one tile of queries; each warp has 16 or 32 of its rows, and keeps their sums in registers.
// K and V have one buffer each: V is on its way while the scores are computed, the next K while the
// values are weighed. Two blocks on a multiprocessor fill each other's gaps.
//
// Blocks of keys run from the last to the first. Query heads share a tile as in sm90/: row r of a
// tile is head r % pack of token r / pack.
#pragma once

#include "backends/cuda/ptx/ldmatrix.cuh"
#include "backends/cuda/ptx/mma.cuh"
#include "backends/cuda/tile/prefill_softmax.cuh"
#include "backends/cuda/tile/prefill_tiles.cuh"

namespace octavo::backends::cuda {

template <typename Config>
class PrefillWarp {
 public:
  __device__ PrefillWarp(const PrefillParams& params, const PrefillTile& tile, uint32_t shared)
      : params_(params), tile_(tile) {
    lane_ = shared + lane() % 16 * kPanelRowBytes + ((lane() / 16) ^ lane() % 8) * 16;
#pragma unroll
    for (auto& tile : o_) {
#pragma unroll
      for (float& x : tile) x = 0.0f;
    }
  }

  __device__ __forceinline__ void score_keys() {
#pragma unroll
    for (auto& tile : s_) {
#pragma unroll
      for (float& x : tile) x = 0.0f;
    }
#pragma unroll
    for (int step = 0; step < Config::kHeadDim / 16; ++step) {
      uint32_t q[Config::kRowTiles][4];
      const uint32_t q_at = along(Config::kBlockM, step) + first_row() * kPanelRowBytes;
      const uint32_t k_at = along(Config::kBlockN, step) + Config::kK;
#pragma unroll
      for (int m = 0; m < Config::kRowTiles; ++m) {
        ldmatrix_x4(q[m], q_at + m * 16 * kPanelRowBytes);
      }
#pragma unroll
      for (int j = 0; j < Config::kBlockN / 16; ++j) {
        uint32_t k[4];
        ldmatrix_x4(k, k_at + j * 16 * kPanelRowBytes);
#pragma unroll
        for (int m = 0; m < Config::kRowTiles; ++m) {
          multiply(s_[m] + 8 * j, q[m], k[0], k[2]);
          multiply(s_[m] + 8 * j + 4, q[m], k[1], k[3]);
        }
      }
    }
  }

  // Scores of key block n become weights.
  template <bool kMasked>
  __device__ __forceinline__ void weigh(int n) {
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
      if (params_.softcap) softcap_scores(s_[m], score());
      VisibleKeys keys;
      if constexpr (kMasked) keys = visible_keys(n, m);
      float correction[2];
      if (softmax_block<kMasked>(s_[m], rows_[m], correction, keys, score())) {
        rescale(o_[m], correction);
      }
    }
  }

  __device__ __forceinline__ void add_values() {
#pragma unroll
    for (int step = 0; step < Config::kBlockN / 16; ++step) {
      uint32_t p[Config::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < Config::kRowTiles; ++m) {
        pack_weights<Config::kFp8>(p[m], reinterpret_cast<const float(&)[8]>(s_[m][8 * step]));
      }
#pragma unroll
      for (int d = 0; d < Config::kHeadDim / 16; ++d) {
        uint32_t v[4];
        ldmatrix_x4_transposed(v,
                               along(Config::kBlockN, d) + Config::kV + step * 16 * kPanelRowBytes);
#pragma unroll
        for (int m = 0; m < Config::kRowTiles; ++m) {
          multiply(o_[m] + 8 * d, p[m], v[0], v[1]);
          multiply(o_[m] + 8 * d + 4, p[m], v[2], v[3]);
        }
      }
    }
  }

  __device__ __forceinline__ void store() const {
    const float value_scale = Config::kFp8 ? tile_.value_scale : 1.0f;
    const OutputTile tile = {tile_.item.q_row, tile_.item.num_tokens, tile_.first_head};
#pragma unroll
    for (int m = 0; m < Config::kRowTiles; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        store_row<Config::kHeadDim>(params_, tile, tile_row(m, r), r, o_[m], rows_[m], score().log2,
                                    value_scale);
      }
    }
  }

 private:
  __device__ __forceinline__ const ScoreScale& score() const {
    if constexpr (Config::kFp8) return tile_.score;
    return params_.score;
  }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x) / 32 * 16 * Config::kRowTiles;
  }
  // The row in its tile of the thread's r-th row of the warp's m-th 16.
  static __device__ __forceinline__ int tile_row(int m, int r) {
    return first_row() + 16 * m + lane() / 4 + 8 * r;
  }
  // A lane's address for ldmatrix in a tile at offset 0 of `rows` rows, 16 * step columns on.
  __device__ __forceinline__ uint32_t along(int rows, int step) const {
    return (opaque(lane_) ^ step % 4 * 32) + step / 4 * rows * kPanelRowBytes;
  }
  static __device__ __forceinline__ void multiply(float* d, const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
    auto& sums = *reinterpret_cast<float(*)[4]>(d);
    if constexpr (Config::kFp8) {
      mma_m16n8k16_f16(sums, a, b0, b1);
    } else {
      mma_m16n8k16_bf16(sums, a, b0, b1);
    }
  }

  // The keys of block n that the thread's two rows see, counted from its first column.
  __device__ __forceinline__ VisibleKeys visible_keys(int n, int m) const {
    const int origin = n * Config::kBlockN + lane() % 4 * 2;
    VisibleKeys keys;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position = tile_.item.position + (tile_row(m, r) >> params_.pack_log2);
      keys.low[r] = lowest_key(params_.mask, position) - origin;
      keys.high[r] = highest_key(params_.mask, position, tile_.item.num_keys) + 1 - origin;
    }
    return keys;
  }

  const PrefillParams& params_;
  const PrefillTile& tile_;
  // Row lane % 16, column 8 * (lane / 16) of a tile at offset 0: what a lane gives ldmatrix for 16
  // by 16 values.
  uint32_t lane_;
  float o_[Config::kRowTiles][Config::kHeadDim / 2];
  float s_[Config::kRowTiles][Config::kBlockN / 2];
  SoftmaxRows rows_[Config::kRowTiles];
};

__device__ inline PrefillTile make_tile(const PrefillParams& params, int number) {
  const TilePlace place = tile_place(params, number);
  const int kv_head = place.unit / params.units_per_kv_head;
  PrefillTile tile = {params.list->items()[place.item], place.unit << params.pack_log2, kv_head,
                      params.score, 1.0f};
  if (params.k_scale != nullptr) {
    tile.score = scaled(tile.score, params.softcap, params.k_scale[kv_head * params.scale_stride]);
  }
  if (params.v_scale != nullptr) tile.value_scale = params.v_scale[kv_head * params.scale_stride];
  return tile;
}

template <typename Config>
__global__ void __launch_bounds__(Config::kThreads, 2)
    portable_prefill_kernel(const PrefillParams params, const PortableInputs inputs) {
  extern __shared__ __align__(128) uint8_t dynamic_shared[];
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared));
  if (static_cast<int64_t>(blockIdx.x) >= int64_t{params.list->num_items} * params.units) return;
  __shared__ PrefillTile tile;
  if (threadIdx.x == 0) tile = make_tile(params, static_cast<int>(blockIdx.x));
  __syncthreads();
  const WorkItem& item = tile.item;
  PrefillWarp<Config> warp(params, tile, shared);
  const TileLoader<Config> loader(params, tile, shared);

  int n = item.end - 1;
  uint32_t cache_row = loader.cache_row(n);
  loader.load_q(inputs.q);
  if (n >= item.begin) {
    loader.load_kv(inputs.k, n, cache_row, Config::kK, Config::kRawK);
  }
  if constexpr (Config::kFp8) {
    cp_async_wait_all();
    loader.convert_q();
  }
  for (; n >= item.begin; --n) {
    cp_async_wait_all();
    if constexpr (Config::kFp8) loader.convert_kv(Config::kK, Config::kRawK);
    __syncthreads();
    loader.load_kv(inputs.v, n, cache_row, Config::kV, Config::kRawV);
    cache_row = loader.cache_row(n - 1);
    const bool whole =
        n >= item.begin + (item.masked & 0xFFFF) && n < item.end - (item.masked >> 16);
    warp.score_keys();
    cp_async_wait_all();
    if constexpr (Config::kFp8) loader.convert_kv(Config::kV, Config::kRawV);
    __syncthreads();
    if (n > item.begin) {
      loader.load_kv(inputs.k, n - 1, cache_row, Config::kK, Config::kRawK);
    }
    if (whole) {
      warp.template weigh<false>(n);
    } else {
      warp.template weigh<true>(n);
    }
    warp.add_values();
  }
  warp.store();
}

template <typename Shape>
cudaError_t launch_portable_prefill(const PrefillParams& params, const PortableInputs& inputs,
                                    unsigned num_blocks, cudaStream_t stream) {
  using Config = PortableConfig<Shape>;
  const cudaError_t error =
      cudaFuncSetAttribute(portable_prefill_kernel<Config>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, Config::kSharedBytes);
  if (error != cudaSuccess) return error;
  portable_prefill_kernel<Config>
      <<<num_blocks, Config::kThreads, Config::kSharedBytes, stream>>>(params, inputs);
  return cudaGetLastError();
}

}  // namespace octavo::backends::cuda
