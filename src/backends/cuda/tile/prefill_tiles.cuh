// How the portable prefill kernel brings tiles to shared memory: by cp.async, 16 bytes at a time,
// swizzled as in tile/swizzle.h. E4M3 tiles are copied as they are, then each thread makes half
// precision of what it copied itself.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/ptx/cp_async.cuh"
#include "backends/cuda/ptx/opaque.cuh"
#include "backends/cuda/tile/prefill_convert.cuh"
#include "backends/cuda/tile/prefill_launch.h"

namespace octavo::backends::cuda {

template <typename Shape>
struct PortableConfig : Shape {
  using Shape::kBlockM, Shape::kBlockN, Shape::kFp8, Shape::kHeadDim;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowTiles = kBlockM / (16 * kWarps);  // of a warp

  static constexpr int kQBytes = kBlockM * kHeadDim * 2;
  static constexpr int kTileBytes = kBlockN * kHeadDim * 2;
  static constexpr int kRawBytes = kFp8 ? kTileBytes / 2 : 0;
  // Offsets in shared memory.
  static constexpr int kK = kQBytes;
  static constexpr int kV = kK + kTileBytes;
  static constexpr int kRawK = kV + kTileBytes;
  static constexpr int kRawV = kRawK + kRawBytes;
  static constexpr int kSharedBytes = kRawV + kRawBytes;
};

// How a block's threads share a tile of kRows rows of kChunks chunks of 16 bytes: a thread always
// has the same chunk of a row, of rows kRowsPerPass apart.
template <int kRows_, int kChunks_, int kThreads>
struct Share {
  static constexpr int kRows = kRows_;
  static constexpr int kChunks = kChunks_;
  static constexpr int kRowsPerPass = kThreads / kChunks;
  static constexpr int kPasses = kRows / kRowsPerPass;
  static_assert(kThreads % kChunks == 0 && kRows % kRowsPerPass == 0);
  static_assert(kRowsPerPass == 4 || kRowsPerPass % 8 == 0, "at() adds rows without a carry");
  static_assert(16 % kRowsPerPass == 0 || kRowsPerPass % 16 == 0, "of groups of 16 keys");

  int thread;
  __device__ __forceinline__ int first_row() const { return thread / kChunks; }
  __device__ __forceinline__ int chunk() const { return thread % kChunks; }
  // From where a chunk of first_row() lies to where it lies in row first_row() + pass *
  // kRowsPerPass: constants, so that no address need be kept.
  static __device__ __forceinline__ uint32_t at(uint32_t address, int pass) {
    const int rows = pass * kRowsPerPass;
    return (address ^ rows % 8 * 16) + rows * kPanelRowBytes;
  }
};

// What a block of threads works on. It lies in shared memory: the kernel has no registers for it.
struct PrefillTile {
  WorkItem item;
  int first_head;  // of the query heads in the tile
  int kv_head;
  ScoreScale score;  // of E4M3
  float value_scale;
};

// The copies of one block of threads for its tile of queries.
template <typename Config>
class TileLoader {
 public:
  __device__ TileLoader(const PrefillParams& params, const PrefillTile& tile, uint32_t shared)
      : params_(params), tile_(tile), shared_(shared) {}

  __device__ __forceinline__ void load_q(const __nv_bfloat16* q) const {
    const Q share = {thread()};
    const uint32_t to = shared_ + chunk_offset(Config::kBlockM, share.first_row(), share.chunk());
#pragma unroll 4
    for (int pass = 0; pass < Q::kPasses; ++pass) {
      const int row = share.first_row() + pass * Q::kRowsPerPass;
      const int token = row >> params_.pack_log2;
      const int head = tile_.first_head + (row & ((1 << params_.pack_log2) - 1));
      const bool valid = token < tile_.item.num_tokens;
      const int64_t from =
          int64_t{tile_.item.q_row + (valid ? token : 0)} * params_.num_heads + head;
      cp_async_16_or_zeros(Q::at(to, pass), q + from * Config::kHeadDim + share.chunk() * 8, valid);
    }
  }

  // What this thread copied of Q, in place.
  __device__ __forceinline__ void convert_q() const {
    const Q share = {thread()};
    const uint32_t at = shared_ + chunk_offset(Config::kBlockM, share.first_row(), share.chunk());
#pragma unroll 4
    for (int pass = 0; pass < Q::kPasses; ++pass) {
      convert_bf16_chunk(Q::at(at, pass));
    }
  }

  // Where the cache has the keys from 16 * l of key block n on, for lane l: the index of a row of
  // head_dim values. Loaded well before it is needed.
  __device__ __forceinline__ uint32_t cache_row(int n) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int key = n * Config::kBlockN + lane * 16;
    if (params_.block_table == nullptr) {
      return static_cast<uint32_t>((tile_.item.kv_row + key) * params_.num_kv_heads +
                                   tile_.kv_head);
    }
    if (n < tile_.item.begin || lane * 16 >= Config::kBlockN || key >= tile_.item.num_keys)
      return 0;
    const int block = params_.block_table[tile_.item.kv_row * params_.block_table_stride +
                                          (key >> params_.block_size_log2)];
    const int slot = key & ((1 << params_.block_size_log2) - 1);
    const auto row = static_cast<uint32_t>(block * params_.num_kv_heads + tile_.kv_head);
    return (row << params_.block_size_log2) + slot;
  }

  // Starts the copies of key block n of K or V; keys past the end are zeros.
  __device__ __forceinline__ void load_kv(const uint8_t* kv, int n, uint32_t cache_row,
                                          uint32_t tile, uint32_t raw) const {
    const Kv share = {thread()};
    const int keys_left = tile_.item.num_keys - n * Config::kBlockN - share.first_row();
    const uint32_t stride = params_.block_table == nullptr ? params_.num_kv_heads : 1;
    const uint32_t from = share.first_row() % 16 * stride * kRowBytes + share.chunk() * 16;
    const uint32_t first_to =
        shared_ + (Config::kFp8
                       ? raw + share.thread * 16
                       : tile + chunk_offset(Config::kBlockN, share.first_row(), share.chunk()));
#pragma unroll 2  // more would keep more addresses at a time than there are registers
    for (int pass = 0; pass < Kv::kPasses; ++pass) {
      constexpr int kStep =
          Kv::kRowsPerPass;  // a group of 16 rows is a thread's, or passes share it
      const int group = pass * kStep / 16 + (kStep > 16 ? share.first_row() / 16 : 0);
      const uint32_t first = __shfl_sync(0xFFFFFFFF, cache_row, group);
      const uint64_t kv_row = first + pass * kStep % 16 * stride;
      const uint32_t to =
          Config::kFp8 ? first_to + pass * Config::kThreads * 16 : Kv::at(first_to, pass);
      cp_async_16_or_zeros(to, kv + kv_row * kRowBytes + from, pass * kStep < keys_left);
    }
  }

  // What this thread copied of an E4M3 tile becomes half precision.
  __device__ __forceinline__ void convert_kv(uint32_t tile, uint32_t raw) const {
    const Kv share = {thread()};
    const uint32_t from = shared_ + raw + share.thread * 16;
    const uint32_t first_to =
        shared_ + tile + chunk_offset(Config::kBlockN, share.first_row(), 2 * share.chunk());
#pragma unroll 2
    for (int pass = 0; pass < Kv::kPasses; ++pass) {
      const uint32_t to = Kv::at(first_to, pass);
      convert_e4m3_chunk(to, to ^ 16, from + pass * Config::kThreads * 16);
    }
  }

 private:
  static constexpr int kRowBytes = Config::kHeadDim * (Config::kFp8 ? 1 : 2);
  using Q = Share<Config::kBlockM, Config::kHeadDim / 8, Config::kThreads>;
  using Kv = Share<Config::kBlockN, kRowBytes / 16, Config::kThreads>;

  static __device__ __forceinline__ int thread() { return static_cast<int>(opaque(threadIdx.x)); }

  const PrefillParams& params_;
  const PrefillTile& tile_;
  const uint32_t shared_;
};

}  // namespace octavo::backends::cuda
