// What feeds the decode kernel: two warps of a block, the producers, look up where keys and values
// lie and have them copied into two rings of tiles in shared memory, as far ahead as the rings
// allow and across the ends of items. The other warps know nothing of pages.
//
// Two ways to copy: BulkCopies (sm_90: a slab at a time, counted in bytes by the tile's barrier)
// and ThreadCopies (sm_80: 16 bytes a lane).
#pragma once

#include <cstdint>

#include "backends/cuda/ptx/bulk_copy.cuh"
#include "backends/cuda/ptx/cp_async.cuh"
#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/decode_plan.h"

namespace octavo::backends::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

// The work of one item of the list.
struct DecodeItem {
  DecodeWork work;
  int index;  // of the item; -1: there are no more
  int kv_head;
  int row_tile;
  int num_rows;  // from the tile's first to the sequence's last; may be 0 or less
};

// Row tiles follow each other, then kv heads, so that blocks that run at the same time read
// neighbouring memory.
__device__ inline DecodeItem load_item(const DecodeKernelArgs& launch, int index) {
  const int head = launch.heads.remainder(index);
  DecodeItem item;
  item.work = launch.workspace.work[launch.heads.divide(index)];
  item.index = index;
  item.kv_head = launch.row_tiles.divide(head);
  item.row_tile = launch.row_tiles.remainder(head);
  item.num_rows = item.work.q_len * launch.group.divisor() -
                  item.row_tile * decode_tile_rows(launch.args.head_dim);
  return item;
}

enum TileKind { kKeys, kValues };

// One copy a slab.
template <class Layout>
struct BulkCopies {
  static constexpr int kArrivals = 1;  // at a tile's barrier

  // `from`, `scales`: lanes 0 .. slabs - 1 hold where the slabs and their scales lie.
  __device__ static void put(uint32_t tile, uint32_t barrier, const char* from, const float* scales,
                             int slabs) {
    constexpr int kScaleBytes = Layout::kSlabScaleBytes;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) mbarrier_arrive_expect(barrier, slabs * (Layout::kSlabBytes + kScaleBytes));
    __syncwarp();
    if (lane >= slabs) return;
    bulk_copy(tile + lane * Layout::kSlabBytes, from, Layout::kSlabBytes, barrier);
    if constexpr (Layout::kTokenScales) {
      bulk_copy(tile + Layout::kScaleOffset + lane * kScaleBytes, scales, kScaleBytes, barrier);
    }
  }

  // After ordinary reads and writes of a tile, before it is given back.
  __device__ static void fence() { bulk_copy_fence(); }
};

// Every lane copies 16 bytes at a time, neighbours side by side.
template <class Layout>
struct ThreadCopies {
  static constexpr int kArrivals = 32;

  __device__ static void put(uint32_t tile, uint32_t barrier, const char* from, const float* scales,
                             int slabs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int slab = 0; slab < slabs; ++slab) {
      const auto address = __shfl_sync(kAllLanes, reinterpret_cast<uintptr_t>(from), slab);
      const uint32_t to = tile + slab * Layout::kSlabBytes;
#pragma unroll
      for (int byte = 16 * lane; byte < Layout::kSlabBytes + 16 * lane; byte += 512) {
        cp_async_16(to + byte, reinterpret_cast<const char*>(address) + byte);
      }
    }
    if constexpr (Layout::kTokenScales) {
      constexpr int kPieces = Layout::kSlabScaleBytes / 16;
      const int slab = lane / kPieces;
      const auto address = __shfl_sync(kAllLanes, reinterpret_cast<uintptr_t>(scales), slab % 4);
      const auto* piece = reinterpret_cast<const char*>(address) + lane % kPieces * 16;
      if (slab < slabs) cp_async_16(tile + Layout::kScaleOffset + lane * 16, piece);
    }
    cp_async_arrive(barrier);
  }

  __device__ static void fence() {}
};

// The rings in shared memory and the items that have been announced. Tiles and items are counted
// from the start of the kernel; `full` barriers complete when a tile has arrived or an item is
// announced, `empty` ones when nobody needs it any more.
template <class Layout, class Copies, int kKeyStages, int kValueStages>
struct DecodePipe {
  static constexpr int kItems = 4;
  static constexpr int kRingBytes = (kKeyStages + kValueStages) * Layout::kTileBytes;

  uint64_t full[kKeyStages + kValueStages], empty[kKeyStages + kValueStages];
  uint64_t item_full[kItems], item_empty[kItems];
  DecodeItem items[kItems];

  // By one thread; then a barrier of the block. `item_users`: how many give an item back.
  __device__ void init(int tile_arrivals, int item_users) {
    for (int i = 0; i < kKeyStages + kValueStages; ++i) {
      mbarrier_init(shared_address(&full[i]), static_cast<uint32_t>(tile_arrivals));
      mbarrier_init(shared_address(&empty[i]), 1);
    }
    for (int i = 0; i < kItems; ++i) {
      mbarrier_init(shared_address(&item_full[i]), 1);
      mbarrier_init(shared_address(&item_empty[i]), static_cast<uint32_t>(item_users));
    }
  }

  __device__ static uint32_t stages(TileKind kind) {
    return kind == kKeys ? kKeyStages : kValueStages;
  }
  __device__ static int stage(TileKind kind, uint32_t tile) {
    return static_cast<int>(tile % stages(kind)) + (kind == kKeys ? 0 : kKeyStages);
  }
  __device__ static int offset(TileKind kind, uint32_t tile) {  // in the rings
    return stage(kind, tile) * Layout::kTileBytes;
  }
  __device__ uint32_t full_barrier(TileKind kind, uint32_t tile) {
    return shared_address(&full[stage(kind, tile)]);
  }
  __device__ uint32_t empty_barrier(TileKind kind, uint32_t tile) {
    return shared_address(&empty[stage(kind, tile)]);
  }

  __device__ void wait_room(TileKind kind, uint32_t tile) {
    mbarrier_wait(empty_barrier(kind, tile), (tile / stages(kind) & 1) ^ 1);
  }
  // A warp that takes every n-th tile may come while the stage still waits for the tile before it
  // (copies end in any order), and the parity would deceive it. So it first waits until that one
  // was given back. Nothing older can be missing if there are at least n stages: a tile of this
  // warp n before, which has come, took the place of the one that would be.
  __device__ void wait_tile(TileKind kind, uint32_t tile) {
    wait_room(kind, tile);
    mbarrier_wait(full_barrier(kind, tile), tile / stages(kind) & 1);
  }
  // By a whole warp, after its last read. Without the fence a copy may overtake loads that the warp
  // has issued: on an H200 that eight processes share, 15 to 100 % of runs came out wrong; with it,
  // at no cost that can be measured, none of 1,396.
  __device__ void give_back_tile(TileKind kind, uint32_t tile) {
    Copies::fence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty_barrier(kind, tile));
  }

  __device__ const DecodeItem& wait_item(uint32_t ordinal) {
    mbarrier_wait(shared_address(&item_full[ordinal % kItems]), ordinal / kItems & 1);
    return item(ordinal);
  }
  __device__ const DecodeItem& item(uint32_t ordinal) const { return items[ordinal % kItems]; }
  __device__ void give_back_item(uint32_t ordinal) {  // by one lane of each user
    mbarrier_arrive(shared_address(&item_empty[ordinal % kItems]));
  }
  // By a whole warp.
  __device__ void announce(uint32_t ordinal, const DecodeItem& item) {
    mbarrier_wait(shared_address(&item_empty[ordinal % kItems]), (ordinal / kItems & 1) ^ 1);
    if (threadIdx.x % 32 == 0) {
      items[ordinal % kItems] = item;
      mbarrier_arrive(shared_address(&item_full[ordinal % kItems]));
    }
    __syncwarp();
  }

  // Of the item's keys begin .. end - 1.
  __device__ static int num_tiles(const DecodeItem& item, int begin, int end) {
    if (item.num_rows <= 0) return 0;
    return (end - begin + Layout::kTileTokens - 1) / Layout::kTileTokens;
  }
};

// One warp's work: the keys, and with them the choice of items; or the values of the same items.
template <class Layout, class Copies, class Pipe, TileKind kKind>
class DecodeProducer {
 public:
  __device__ DecodeProducer(const DecodeKernelArgs& launch, Pipe& pipe, const char* ring)
      : launch_(launch),
        pipe_(pipe),
        ring_(shared_address(ring)),
        cache_(static_cast<const char*>(kKind == kKeys ? launch.args.k : launch.args.v)),
        scales_(kKind == kKeys ? launch.args.k_scale : launch.args.v_scale),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void run() {
    if constexpr (kKind == kKeys) {
      run_keys();
    } else {
      run_values();
    }
  }

 private:
  static constexpr int kTilesAtOnce = 32 / Layout::kTileSlabs;  // whose slabs the lanes know

  // The first item of a block is known from its index, the others are drawn.
  __device__ void run_keys() {
    if (launch_.after_plan) {
      pdl_wait();
      pdl_launch_next();  // not before: the next launch may read the list at once
    }
    const int num_items = launch_.workspace.header->num_items;
    int index = static_cast<int>(blockIdx.x);
    uint32_t ordinal = 0;
    for (; index < num_items; ++ordinal) {
      const DecodeItem item = load_item(launch_, index);
      pipe_.announce(ordinal, item);
      if (ordinal == 0) {
        put_item<true>(item);
        pdl_wait();
        index = drawn(draw(num_items));
      } else {
        const uint32_t ticket = draw(num_items);  // on its way meanwhile
        put_item<false>(item);
        index = drawn(ticket);
      }
    }
    DecodeItem end = {};
    end.index = -1;
    pipe_.announce(ordinal, end);
  }

  __device__ void run_values() {
    for (uint32_t ordinal = 0;; ++ordinal) {
      const DecodeItem item = pipe_.wait_item(ordinal);
      __syncwarp();
      if (lane_ == 0) pipe_.give_back_item(ordinal);
      if (item.index < 0) break;
      if (ordinal == 0) {
        put_item<true>(item);
        pdl_wait();
      } else {
        put_item<false>(item);
      }
    }
  }

  // Every block that has an item draws until it draws in vain: as many draws as there are items, at
  // the last of which the counter wraps to 0.
  __device__ uint32_t draw(int num_items) {
    if (lane_ != 0) return 0;
    return atomicInc(&launch_.workspace.header->ticket, static_cast<uint32_t>(num_items - 1));
  }
  __device__ static int drawn(uint32_t ticket) {
    return static_cast<int>(gridDim.x + __shfl_sync(kAllLanes, ticket, 0));
  }

  // kEarly: the kernel before may still run. It is waited for where it may write a tile's keys and
  // values.
  template <bool kEarly>
  __device__ void put_item(const DecodeItem& item) {
    const DecodeWork& work = item.work;
    const int num_tiles = Pipe::num_tiles(item, work.begin, work.end);
    int64_t offset = 0;
    for (int tile = 0; tile < num_tiles; ++tile, ++next_tile_) {
      const int token = work.begin + tile * Layout::kTileTokens;
      if (tile % kTilesAtOnce == 0) offset = find_slab(item, token);
      const int slabs = min(Layout::kTileSlabs,
                            (work.end - token + Layout::kSlabTokens - 1) / Layout::kSlabTokens);
      const int first_lane = tile % kTilesAtOnce * Layout::kTileSlabs;
      const auto from = __shfl_sync(kAllLanes, offset, first_lane + lane_ % Layout::kTileSlabs);
      pipe_.wait_room(kKind, next_tile_);
      if (kEarly && token + Layout::kTileTokens > work.num_keys - work.q_len) pdl_wait();
      Copies::put(ring_ + Pipe::offset(kKind, next_tile_), pipe_.full_barrier(kKind, next_tile_),
                  cache_ + from, scales_ + from / Layout::kRowBytes, slabs);
    }
  }

  // Where the slab of this lane lies in the cache, of the slabs from `token` on.
  __device__ int64_t find_slab(const DecodeItem& item, int token) {
    const DecodeArgs& args = launch_.args;
    token += lane_ * Layout::kSlabTokens;
    if (token >= item.work.end) return 0;
    const int64_t block = args.block_table[item.work.seq * args.block_table_stride +
                                           launch_.block_size.divide(token)];
    return ((block * args.num_kv_heads + item.kv_head) * args.block_size +
            launch_.block_size.remainder(token)) *
           Layout::kRowBytes;
  }

  const DecodeKernelArgs& launch_;
  Pipe& pipe_;
  uint32_t ring_;
  const char* cache_;
  const float* scales_;  // of tokens
  int lane_;
  uint32_t next_tile_ = 0;
};

}  // namespace octavo::backends::cuda
