// The producer's two warps of the prefill kernel: one takes tiles and brings queries and keys, the
// other brings values, all by TMA. A page of the cache is one box a panel of 64 columns, and each
// lane issues one box, so that pages of 16 tokens need neither address arithmetic nor a gather.
#pragma once

#include "backends/cuda/ptx/tma.cuh"
#include "backends/cuda/sm90/attention_prefill_shared.cuh"

namespace octavo::backends::cuda {

// A producer warp has few registers (PrefillConfig): it works values out anew rather than keep
// them.
//
// A tile's words, one a lane: its item, then the unit of heads.
struct ProducerTile {
  int word;

  __device__ __forceinline__ int field(int i) const { return __shfl_sync(0xFFFFFFFF, word, i); }
};

// Each lane brings at most one box of a tile of K or V: 64 columns of the rows of a page.
template <typename Config>
struct Box {
  const TmaPrefillParams& params;
  const int lane;

  __device__ __forceinline__ int column() const { return lane % Config::kPanels * kPanelColumns; }
  __device__ __forceinline__ int row() const { return lane / Config::kPanels * params.box_rows; }
  __device__ __forceinline__ bool active() const { return row() < Config::kBlockN; }
  __device__ __forceinline__ uint32_t offset() const {
    return (lane % Config::kPanels * Config::kBlockN + row()) * kPanelRowBytes;
  }
};

// The block of the cache that this lane's box of key block `n` lies in; one past the last (which
// reads as zeros) where the sequence has ended.
template <typename Config>
__device__ __forceinline__ int cache_block(const Box<Config>& box, const ProducerTile& tile,
                                           int n) {
  const TmaPrefillParams& params = box.params;
  if (params.block_table == nullptr) return 0;
  const int num_keys = tile.field(kNumKeysWord);
  const int seq = tile.field(kKvRowWord);
  const int key = n * Config::kBlockN + box.row();
  if (n < 0 || key >= num_keys || !box.active()) return params.num_blocks;
  return params.block_table[seq * params.block_table_stride + (key >> params.block_size_log2)];
}

// Brings the queries of the item_use'th item, or none, for an item without keys: the ring's turns
// are the items'.
template <typename Config>
__device__ __forceinline__ void load_q(const CUtensorMap& map, uint32_t shared, uint32_t item_use,
                                       bool needed, const ProducerTile& tile, int lane) {
  using Shared = PrefillShared<Config>;
  const uint32_t stage = ring_stage<Config::kQStages>(item_use);
  const uint32_t full = shared + Shared::kQFull + 8 * stage;
  const int unit = tile.field(kUnitWord);
  const int q_row = tile.field(kQRowWord);
  mbarrier_wait(shared + Shared::kQEmpty + 8 * stage, ring_parity<Config::kQStages>(item_use) ^ 1);
  if (lane == 0) mbarrier_arrive_expect(full, needed ? Config::kQBytes : 0);
  __syncwarp();
  if (needed && lane < Config::kPanels) {
    const uint32_t panel =
        shared + Shared::kQ + stage * Config::kQBytes + lane * Config::kBlockM * kPanelRowBytes;
    tma_load_4d(panel, map, full, lane * kPanelColumns, 0, unit, q_row, l2_evict_first());
  }
}

// Brings key block n of K or V into the use'th buffer of its ring.
template <typename Config>
__device__ __forceinline__ void load_tile(const CUtensorMap& map, uint32_t buffers, uint32_t full,
                                          uint32_t empty, uint32_t use, const Box<Config>& box,
                                          const ProducerTile& tile, int n, int block) {
  const TmaPrefillParams& params = box.params;
  const uint32_t stage = ring_stage<Config::kStages>(use);
  const int head = tile.field(kUnitWord) / params.units_per_kv_head;
  const int first_row = params.block_table != nullptr ? 0 : tile.field(kKvRowWord);
  const int row = first_row + ((n * Config::kBlockN + box.row()) & params.row_mask);
  mbarrier_wait(empty + 8 * stage, ring_parity<Config::kStages>(use) ^ 1);
  if (box.lane == 0) mbarrier_arrive_expect(full + 8 * stage, Config::kTileBytes);
  __syncwarp();
  if (box.active()) {
    tma_load_4d(buffers + stage * Config::kTileBytes + box.offset(), map, full + 8 * stage,
                box.column(), row, head, block, l2_evict_last());
  }
}

// A lane's word of the work on tile `tile`.
__device__ __forceinline__ int tile_word(const TmaPrefillParams& params, int tile, int total,
                                         int lane) {
  if (tile >= total) return kNoMoreWork;
  const TilePlace place = tile_place(params, tile);
  if (lane >= kUnitWord) return place.unit;
  return reinterpret_cast<const int*>(params.list->items() + place.item)[lane];
}

template <typename Config>
__device__ __forceinline__ void publish_tile(uint32_t shared, uint32_t use, int word, int lane) {
  using Shared = PrefillShared<Config>;
  const uint32_t slot = ring_stage<kItemSlots>(use);
  mbarrier_wait(shared + Shared::kItemEmpty + 8 * slot, ring_parity<kItemSlots>(use) ^ 1);
  if (lane <= kUnitWord) {
    store_shared_word(shared + Shared::kItems + slot * kItemBytes + 4 * lane, word);
  }
  __syncwarp();
  if (lane == 0) mbarrier_arrive(shared + Shared::kItemFull + 8 * slot);
}

// Brings the keys of a tile, and Q after the first; or its values. The last block comes first.
template <typename Config, bool kKeys>
__device__ __forceinline__ void load_item(const PrefillMaps& maps, uint32_t shared,
                                          const Box<Config>& box, const ProducerTile& tile,
                                          uint32_t& use, uint32_t item_use) {
  using Shared = PrefillShared<Config>;
  const int begin = tile.field(kBeginWord);
  const int end = tile.field(kEndWord);
  if constexpr (kKeys) {
    if (begin >= end) load_q<Config>(maps.q, shared, item_use, false, tile, box.lane);
  }
  // The table is read a block ahead: the copies' turn to wait hides that.
  int block = cache_block<Config>(box, tile, end - 1);
  for (int n = end - 1; n >= begin; --n, ++use) {
    const int block_before = cache_block<Config>(box, tile, n - 1);
    if constexpr (kKeys) {
      load_tile<Config>(maps.k, shared + Shared::kK, shared + Shared::kKFull,
                        shared + Shared::kKEmpty, use, box, tile, n, block);
      if (n == end - 1) load_q<Config>(maps.q, shared, item_use, true, tile, box.lane);
    } else {
      load_tile<Config>(maps.v, shared + Shared::kV, shared + Shared::kVFull,
                        shared + Shared::kVEmpty, use, box, tile, n, block);
    }
    block = block_before;
  }
}

// The warp that takes tiles, tells the others and brings keys and queries.
template <typename Config>
__device__ __forceinline__ void key_role(const TmaPrefillParams& params, const PrefillMaps& maps,
                                         uint32_t shared, int lane) {
  const int total = params.list->num_items * params.units;
  const Box<Config> box{params, lane};
  uint32_t item_use = 0, use = 0;
  // The ticket wraps around after `total` draws: as many as a launch makes, since each block draws
  // once in vain.
  const auto draw = [&](int before) {
    if (lane != 0 || before >= total) return total;
    return static_cast<int>(gridDim.x + atomicInc(&params.list->ticket, total - 1));
  };
  // `next` is on its way while the tile before the one at hand is loaded, its item while that is.
  int next = draw(static_cast<int>(blockIdx.x));
  int word = tile_word(params, static_cast<int>(blockIdx.x), total, lane);
  while (true) {
    publish_tile<Config>(shared, item_use, word, lane);
    if (__shfl_sync(0xFFFFFFFF, word, kUnitWord) == kNoMoreWork) return;
    next = __shfl_sync(0xFFFFFFFF, next, 0);
    const int next_word = tile_word(params, next, total, lane);
    next = draw(next);
    load_item<Config, true>(maps, shared, box, {word}, use, item_use);
    ++item_use;
    word = next_word;
  }
}

// The warp that brings values. Pages of 16 tokens are many boxes: two warps issue them in half the
// time.
template <typename Config>
__device__ __forceinline__ void value_role(const TmaPrefillParams& params, const PrefillMaps& maps,
                                           uint32_t shared, int lane) {
  using Shared = PrefillShared<Config>;
  const Box<Config> box{params, lane};
  uint32_t use = 0;
  for (uint32_t item_use = 0;; ++item_use) {
    const uint32_t slot = ring_stage<kItemSlots>(item_use);
    mbarrier_wait(shared + Shared::kItemFull + 8 * slot, ring_parity<kItemSlots>(item_use));
    const int word = load_shared_word(shared + Shared::kItems + slot * kItemBytes +
                                      4 * (lane < kUnitWord ? lane : kUnitWord));
    __syncwarp();
    release(shared + Shared::kItemEmpty + 8 * slot);
    if (__shfl_sync(0xFFFFFFFF, word, kUnitWord) == kNoMoreWork) return;
    load_item<Config, false>(maps, shared, box, {word}, use, item_use);
  }
}

}  // namespace octavo::backends::cuda
