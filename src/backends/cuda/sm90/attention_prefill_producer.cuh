// The producer's two warps of the prefill kernel: one takes tiles and brings queries and keys, the
// other brings values, all by TMA. A page of the cache is one box a panel of 64 columns, and each
// lane issues one box, so that pages of 16 tokens need neither address arithmetic nor a gather.
#pragma once

#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/ptx/tma.cuh"
#include "backends/cuda/ptx/wgmma.cuh"
#include "backends/cuda/sm90/attention_prefill_shared.cuh"
#include "backends/cuda/tile/prefill_convert.cuh"

namespace octavo::backends::cuda {

// A producer warp has few registers (PrefillConfig): it works values out anew rather than keep
// them.
//
// A tile's words, one a lane: its item, then the unit of heads.
struct ProducerTile {
  int word;

  __device__ __forceinline__ int field(int i) const { return __shfl_sync(0xFFFFFFFF, word, i); }
};

// Each lane brings at most one box of a tile of K or V: 64 columns of the rows of a page, or all of
// E4M3.
template <typename Config>
struct Box {
  const TmaPrefillParams& params;
  const int lane;
  static constexpr int kPanels = Config::kFp8 ? 1 : Config::kPanels;

  __device__ __forceinline__ int column() const { return lane % kPanels * kPanelColumns; }
  __device__ __forceinline__ int row() const { return lane / kPanels * params.box_rows; }
  __device__ __forceinline__ bool active() const { return row() < Config::kBlockN; }
  __device__ __forceinline__ uint32_t offset() const {
    if constexpr (Config::kFp8) return row() * Config::kHeadDim;
    return (lane % kPanels * Config::kBlockN + row()) * kPanelRowBytes;
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

// The ring of buffers that TMA fills with K or V.
template <typename Config, bool kKeys>
struct KvRing {
  using Shared = PrefillShared<Config>;
  static constexpr int kStages = Config::kFp8 ? Config::kRawStages : Config::kStages;
  static constexpr int kBytes = Config::kFp8 ? Config::kRawBytes : Config::kTileBytes;
  static constexpr uint32_t kBuffers =
      Config::kFp8 ? (kKeys ? Shared::kRawK : Shared::kRawV) : (kKeys ? Shared::kK : Shared::kV);
  static constexpr uint32_t kFull = Config::kFp8 ? (kKeys ? Shared::kRawKFull : Shared::kRawVFull)
                                                 : (kKeys ? Shared::kKFull : Shared::kVFull);
  static constexpr uint32_t kEmpty = Config::kFp8
                                         ? (kKeys ? Shared::kRawKEmpty : Shared::kRawVEmpty)
                                         : (kKeys ? Shared::kKEmpty : Shared::kVEmpty);
};

// Brings key block n of K or V into the use'th buffer of its ring.
template <typename Config, bool kKeys>
__device__ __forceinline__ void load_tile(const CUtensorMap& map, uint32_t shared, uint32_t use,
                                          const Box<Config>& box, const ProducerTile& tile, int n,
                                          int block) {
  using Ring = KvRing<Config, kKeys>;
  const TmaPrefillParams& params = box.params;
  const uint32_t stage = ring_stage<Ring::kStages>(use);
  const uint32_t full = shared + Ring::kFull + 8 * stage;
  const int head = tile.field(kUnitWord) / params.units_per_kv_head;
  const int first_row = params.block_table != nullptr ? 0 : tile.field(kKvRowWord);
  const int row = first_row + ((n * Config::kBlockN + box.row()) & params.row_mask);
  mbarrier_wait(shared + Ring::kEmpty + 8 * stage, ring_parity<Ring::kStages>(use) ^ 1);
  if (box.lane == 0) mbarrier_arrive_expect(full, Ring::kBytes);
  __syncwarp();
  if (box.active()) {
    tma_load_4d(shared + Ring::kBuffers + stage * Ring::kBytes + box.offset(), map, full,
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
  const int begin = tile.field(kBeginWord);
  const int end = tile.field(kEndWord);
  if constexpr (kKeys) {
    if (begin >= end) load_q<Config>(maps.q, shared, item_use, false, tile, box.lane);
  }
  // The table is read a block ahead: the copies' turn to wait hides that.
  int block = cache_block<Config>(box, tile, end - 1);
  for (int n = end - 1; n >= begin; --n, ++use) {
    const int block_before = cache_block<Config>(box, tile, n - 1);
    load_tile<Config, kKeys>(kKeys ? maps.k : maps.v, shared, use, box, tile, n, block);
    if constexpr (kKeys) {
      if (n == end - 1) load_q<Config>(maps.q, shared, item_use, true, tile, box.lane);
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
    if (__shfl_sync(0xFFFFFFFF, word, kUnitWord) == kNoMoreWork) return pdl_launch_next();
    next = __shfl_sync(0xFFFFFFFF, next, 0);
    const int next_word = tile_word(params, next, total, lane);
    next = draw(next);
    load_item<Config, true>(maps, shared, box, {word}, use, item_use);
    ++item_use;
    word = next_word;
  }
}

// A lane's word of the item_use'th tile, as the warp of keys has published it.
template <typename Config>
__device__ __forceinline__ int published_word(uint32_t shared, uint32_t item_use, int lane) {
  using Shared = PrefillShared<Config>;
  const uint32_t slot = ring_stage<kItemSlots>(item_use);
  mbarrier_wait(shared + Shared::kItemFull + 8 * slot, ring_parity<kItemSlots>(item_use));
  const int word = load_shared_word(shared + Shared::kItems + slot * kItemBytes +
                                    4 * (lane < kUnitWord ? lane : kUnitWord));
  __syncwarp();
  release(shared + Shared::kItemEmpty + 8 * slot);
  return word;
}

// The warp that brings values. Pages of 16 tokens are many boxes: two warps issue them in half the
// time.
template <typename Config>
__device__ __forceinline__ void value_role(const TmaPrefillParams& params, const PrefillMaps& maps,
                                           uint32_t shared, int lane) {
  const Box<Config> box{params, lane};
  uint32_t use = 0;
  for (uint32_t item_use = 0;; ++item_use) {
    const int word = published_word<Config>(shared, item_use, lane);
    if (__shfl_sync(0xFFFFFFFF, word, kUnitWord) == kNoMoreWork) return;
    load_item<Config, false>(maps, shared, box, {word}, use, item_use);
  }
}

// The warp of `share` among those that make half precision of the tiles of K or V that TMA has
// brought as E4M3: they share the rows.
template <typename Config, bool kKeys>
__device__ __forceinline__ void convert_tiles(uint32_t shared, int share, int lane) {
  using Shared = PrefillShared<Config>;
  using Ring = KvRing<Config, kKeys>;
  constexpr uint32_t kTiles = kKeys ? Shared::kK : Shared::kV;
  constexpr uint32_t kFull = kKeys ? Shared::kKFull : Shared::kVFull;
  constexpr uint32_t kEmpty = kKeys ? Shared::kKEmpty : Shared::kVEmpty;
  // Eight lanes have four chunks of two rows: what they write goes to different banks.
  constexpr int kChunks = Config::kHeadDim / 16;
  const int lane_chunk = lane / 8 % (kChunks / 4) * 4 + lane % 4;
  constexpr int kRowsAtOnce = 32 / kChunks;
  // A load after another's store would wait for a latency each.
  constexpr int kAhead = 4;
  constexpr int kRows = Config::kBlockN / (Config::kConvertWarps / 2);
  static_assert(kRows % (kAhead * kRowsAtOnce) == 0);
  const int begin = share * kRows + lane / 8 / (kChunks / 4) * 2 + lane / 4 % 2;
  uint32_t use = 0;
  for (uint32_t item_use = 0;; ++item_use) {
    const int word = published_word<Config>(shared, item_use, lane);
    if (__shfl_sync(0xFFFFFFFF, word, kUnitWord) == kNoMoreWork) return;
    const int count =
        __shfl_sync(0xFFFFFFFF, word, kEndWord) - __shfl_sync(0xFFFFFFFF, word, kBeginWord);
    for (int i = 0; i < count; ++i, ++use) {
      const uint32_t raw_stage = ring_stage<Ring::kStages>(use);
      const uint32_t stage = ring_stage<Config::kStages>(use);
      const uint32_t raw = shared + Ring::kBuffers + raw_stage * Ring::kBytes + lane_chunk * 16;
      const uint32_t tile = shared + kTiles + stage * Config::kTileBytes;
      mbarrier_wait(shared + Ring::kFull + 8 * raw_stage, ring_parity<Ring::kStages>(use));
      mbarrier_wait(shared + kEmpty + 8 * stage, ring_parity<Config::kStages>(use) ^ 1);
#pragma unroll 1
      for (int first = begin; first < begin + kRows; first += kAhead * kRowsAtOnce) {
        uint4 x[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          x[j] = load_shared_16(raw + (first + j * kRowsAtOnce) * Config::kHeadDim);
        }
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          const uint32_t to =
              tile + chunk_offset(Config::kBlockN, first + j * kRowsAtOnce, 2 * lane_chunk);
          store_e4m3_chunk(to, to ^ 16, x[j]);
        }
      }
      fence_async_shared();
      __syncwarp();
      release(shared + Ring::kEmpty + 8 * raw_stage);
      release(shared + kFull + 8 * stage);
    }
  }
}

// One of kConvertWarps warps: the first half of them converts K.
template <typename Config>
__device__ __forceinline__ void convert_role(uint32_t shared, int warp, int lane) {
  constexpr int kShares = Config::kConvertWarps / 2;
  if (warp < kShares) {
    convert_tiles<Config, true>(shared, warp, lane);
  } else {
    convert_tiles<Config, false>(shared, warp - kShares, lane);
  }
}

}  // namespace octavo::backends::cuda
