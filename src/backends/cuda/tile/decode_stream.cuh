// One warp's stream of keys and values: a ring of half tiles (the K of a tile, then its V) in
// shared memory that belongs to the warp alone. As soon as a half tile has been read, the one that
// the ring has room for next is asked for, across the ends of items: memory never waits for
// arithmetic.
//
// Two ways to copy: BulkCopies (sm_90: a copy a slab, counted by a barrier a half tile) and
// ThreadCopies (sm_80: 16 bytes a thread).
#pragma once

#include <cstdint>

#include "backends/cuda/ptx/bulk_copy.cuh"
#include "backends/cuda/ptx/cp_async.cuh"
#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/decode_plan.h"

namespace octavo::backends::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

// The work of item `item`: row tiles follow each other, then kv heads, so that blocks that run at
// the same time read neighbouring memory.
struct DecodeItem {
  DecodeWork work;
  int kv_head;
  int row_tile;
  int num_rows;  // from the tile's first to the sequence's last; may be 0 or less
};

__device__ inline DecodeItem load_item(const DecodeKernelArgs& launch, int item) {
  const int head = launch.heads.remainder(item);
  DecodeItem result;
  result.work = launch.workspace.work[launch.heads.divide(item)];
  result.kv_head = launch.row_tiles.divide(head);
  result.row_tile = launch.row_tiles.remainder(head);
  result.num_rows = result.work.q_len * launch.group.divisor() -
                    result.row_tile * decode_tile_rows(launch.args.head_dim);
  return result;
}

// The items of this block: two by its index, known from the start, then what tickets give. The
// ticket of the item after next is drawn while an item is worked on.
class DecodeItems {
 public:
  __device__ DecodeItems(const DecodeKernelArgs& launch, int* mailbox)
      : header_(launch.workspace.header), mailbox_(mailbox), num_items_(header_->num_items) {}

  // Item `ordinal` of this block, or -1: there are no more.
  __device__ int at(int ordinal) const {
    const int block = static_cast<int>(blockIdx.x);
    const int grid = static_cast<int>(gridDim.x);
    const int item = ordinal < 2 ? block + ordinal * grid : mailbox_[ordinal % 4];
    return item < num_items_ ? item : -1;
  }

  // By one thread, at the beginning of an item. Every block that has an item draws until it draws
  // in vain, so the number of draws is known and the ticket counter can wrap to 0 at the last.
  __device__ void draw() {
    drawn_ = num_items_;
    if (!more_) return;
    const int grid = static_cast<int>(gridDim.x);
    const int draws = max(0, num_items_ - 2 * grid) + min(num_items_, grid);
    const uint32_t ticket = atomicInc(&header_->ticket, static_cast<uint32_t>(draws - 1));
    drawn_ = 2 * grid + static_cast<int>(ticket);
    more_ = drawn_ < num_items_;
  }
  // By the same thread, before a barrier of the block at the end of item `ordinal`.
  __device__ void publish(int ordinal) { mailbox_[(ordinal + 2) % 4] = drawn_; }

 private:
  DecodeHeader* header_;
  int* mailbox_;  // [4] in shared memory
  int num_items_;
  int drawn_ = 0;
  bool more_ = true;
};

// One copy a slab, by the lane that knows where the slab lies.
template <class Layout, int kSlots>
class BulkCopies {
 public:
  static constexpr int kBarrierBytes = 8 * kSlots;

  __device__ BulkCopies(uint32_t ring, uint32_t barriers) : ring_(ring), barriers_(barriers) {
    if (threadIdx.x % 32 == 0) {
      for (int slot = 0; slot < kSlots; ++slot) mbarrier_init(barriers_ + 8 * slot, 1);
      mbarrier_fence_init();
    }
    __syncwarp();
  }

  // Lanes first .. first + slabs - 1 have `from`.
  __device__ void put(int slot, const char* from, int first, int slabs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t barrier = barriers_ + 8 * slot;
    if (lane == 0) mbarrier_arrive_expect(barrier, slabs * Layout::kSlabBytes);
    __syncwarp();
    const int slab = lane - first;
    if (slab >= 0 && slab < slabs) {
      const uint32_t to = ring_ + slot * Layout::kTileBytes + slab * Layout::kSlabStride;
      bulk_copy(to, from, Layout::kSlabBytes, barrier);
    }
  }

  __device__ void wait(int slot, uint32_t parity, int) {
    mbarrier_wait(barriers_ + 8 * slot, parity);
  }

  // After ordinary writes into the ring.
  __device__ static void fence() { bulk_copy_fence(); }

 private:
  uint32_t ring_, barriers_;
};

// Every lane copies 16 bytes at a time, neighbours side by side.
template <class Layout, int kSlots>
class ThreadCopies {
 public:
  static constexpr int kBarrierBytes = 0;

  __device__ ThreadCopies(uint32_t ring, uint32_t) : ring_(ring) {}

  __device__ void put(int slot, const char* from, int first, int slabs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t to = ring_ + slot * Layout::kTileBytes + 16 * lane;
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
      const auto address = __shfl_sync(kAllLanes, reinterpret_cast<uintptr_t>(from), first + slab);
#pragma unroll
      for (int byte = 0; byte < Layout::kSlabBytes; byte += 512) {
        cp_async_16(to + slab * Layout::kSlabStride + byte,
                    reinterpret_cast<const char*>(address) + byte + 16 * lane);
      }
    }
    cp_async_commit();
  }

  // `filled`: half tiles asked for and not yet given back, the awaited one included.
  __device__ void wait(int, uint32_t, int filled) {
    if (filled == kSlots) {
      cp_async_wait<kSlots - 1>();
    } else {
      cp_async_wait<0>();
    }
    __syncwarp();
  }

  __device__ static void fence() {}

 private:
  uint32_t ring_;
};

template <class Layout, template <class, int> class Copies, int kSlots, int kWarps>
class DecodeStream {
 public:
  __device__ DecodeStream(const DecodeKernelArgs& launch, const DecodeItems& items, char* ring,
                          uint64_t* barriers)
      : launch_(launch),
        items_(items),
        ring_(ring),
        copies_(shared_address(ring), shared_address(barriers)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  // Items up to this ordinal may be asked for.
  __device__ void allow(int last_ordinal) { last_ordinal_ = last_ordinal; }

  // Waits for the kernel before, once. Until then only what earlier steps wrote is asked for.
  __device__ void wait_for_previous() {
    if (previous_ended_) return;
    pdl_wait();
    previous_ended_ = true;
  }

  // The oldest half tile, complete.
  __device__ char* take() {
    copies_.wait(take_slot_, take_parity_, filled_);
    return ring_ + take_slot_ * Layout::kTileBytes;
  }

  // All lanes are done with it.
  __device__ void give_back() {
    __syncwarp();
    --filled_;
    if (++take_slot_ == kSlots) {
      take_slot_ = 0;
      take_parity_ ^= 1;
    }
  }

  // Asks for all that the ring has room for and that is known.
  __device__ void fill() {
    while (filled_ < kSlots && (tile_ < num_tiles_ || open_next_item())) put_half_tile();
  }

  __device__ static void fence() { Copies<Layout, kSlots>::fence(); }

  // How many tiles of an item a warp takes: every kWarps-th.
  __device__ static int num_tiles(const DecodeItem& item, int warp) {
    if (item.num_rows <= 0) return 0;
    const int count = item.work.end - item.work.begin;
    const int tiles = (count + Layout::kTileTokens - 1) / Layout::kTileTokens;
    return max(0, tiles - warp + kWarps - 1) / kWarps;
  }
  // The first token of one of them; `begin`: the item's.
  __device__ static int tile_token(int begin, int warp, int tile) {
    return begin + (warp + tile * kWarps) * Layout::kTileTokens;
  }

 private:
  static constexpr int kTilesAtOnce = 8;  // whose slabs the 32 lanes know

  __device__ bool open_next_item() {
    while (tile_ == num_tiles_) {
      if (ordinal_ == last_ordinal_) return false;
      const int item = items_.at(++ordinal_);
      if (item < 0) {
        last_ordinal_ = --ordinal_;
        return false;
      }
      open_item(load_item(launch_, item));
    }
    return true;
  }

  __device__ void open_item(const DecodeItem& item) {
    seq_ = item.work.seq;
    begin_ = item.work.begin;
    end_ = item.work.end;
    written_by_previous_ = item.work.num_keys - item.work.q_len;
    kv_head_ = item.kv_head;
    tile_ = 0;
    num_tiles_ = num_tiles(item, warp_);
  }

  // Each lane looks up one slab of the next tiles: lane / 4 the tile, lane % 4 the slab.
  __device__ void find_slabs() {
    const int token =
        tile_token(begin_, warp_, tile_ + lane_ / 4) + lane_ % 4 * Layout::kSlabTokens;
    if (token >= end_) return;
    const DecodeArgs& args = launch_.args;
    const int64_t block =
        args.block_table[seq_ * args.block_table_stride + launch_.block_size.divide(token)];
    offset_ = ((block * args.num_kv_heads + kv_head_) * args.block_size +
               launch_.block_size.remainder(token)) *
              Layout::kRowBytes;
  }

  __device__ void put_half_tile() {
    if (!values_next_ && tile_ % kTilesAtOnce == 0) find_slabs();
    const int token = tile_token(begin_, warp_, tile_);
    const int slabs = min(4, (end_ - token + Layout::kSlabTokens - 1) / Layout::kSlabTokens);
    if (!previous_ended_ && token + Layout::kTileTokens > written_by_previous_) {
      wait_for_previous();  // it may write keys and values of this tile
    }
    const void* cache = values_next_ ? launch_.args.v : launch_.args.k;
    copies_.put(put_slot_, static_cast<const char*>(cache) + offset_, tile_ % kTilesAtOnce * 4,
                slabs);
    if (++put_slot_ == kSlots) put_slot_ = 0;
    ++filled_;
    if (values_next_) ++tile_;
    values_next_ = !values_next_;
  }

  const DecodeKernelArgs& launch_;
  const DecodeItems& items_;
  char* ring_;
  Copies<Layout, kSlots> copies_;
  int lane_, warp_;

  int put_slot_ = 0, take_slot_ = 0, filled_ = 0;
  uint32_t take_parity_ = 0;

  // The next half tile to ask for.
  int ordinal_ = -1, last_ordinal_ = -1;
  int seq_ = 0, kv_head_ = 0;
  int begin_ = 0, end_ = 0;
  int written_by_previous_ = 0;  // keys from here on
  int tile_ = 0, num_tiles_ = 0;
  bool values_next_ = false;
  bool previous_ended_ = false;
  int64_t offset_ = 0;  // of this lane's slab in the cache
};

}  // namespace octavo::backends::cuda
