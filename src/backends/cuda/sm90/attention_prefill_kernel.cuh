// The prefill kernel: a block an SM takes tiles of queries from the work list. One warp (the
// producer) brings Q, K and V by TMA; two or three warpgroups of 64 rows each compute. Blocks of
// keys run from the last to the first, so that the masked ones at the diagonal come first.
//
// Overlap is the algorithm. Inside a warpgroup the product QK of block n is issued together with PV
// of the block before, whose softmax is done, and the softmax of n runs under PV. Between
// warpgroups a token (a ring of named barriers) lets them issue in turns, so that one's softmax
// runs under the other's products.
//
// Several query heads of a key/value head share a tile where their number has a power of two as a
// factor (`pack`): row r of a tile is head r % pack of token r / pack.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/tma.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/ptx/wgmma.cuh"
#include "backends/cuda/sm90/attention_prefill_params.h"
#include "backends/cuda/sm90/attention_prefill_softmax.cuh"

namespace octavo::backends::cuda {

// Offsets in the block's shared memory, whose start is a multiple of 1024.
template <typename Config>
struct PrefillShared {
  static constexpr uint32_t kQ = 0;
  static constexpr uint32_t kK = Config::kQBytes;
  static constexpr uint32_t kV = kK + Config::kStages * Config::kTileBytes;
  // Barriers of 8 bytes, one a stage where there are stages.
  static constexpr uint32_t kQFull = kV + Config::kStages * Config::kTileBytes;
  static constexpr uint32_t kQEmpty = kQFull + 8;
  static constexpr uint32_t kKFull = kQEmpty + 8;
  static constexpr uint32_t kKEmpty = kKFull + 8 * Config::kStages;
  static constexpr uint32_t kVFull = kKEmpty + 8 * Config::kStages;
  static constexpr uint32_t kVEmpty = kVFull + 8 * Config::kStages;
  static constexpr uint32_t kItemFull = kVEmpty + 8 * Config::kStages;
  static constexpr uint32_t kItemEmpty = kItemFull + 8 * kItemSlots;
  static constexpr uint32_t kBarriersEnd = kItemEmpty + 8 * kItemSlots;
  static constexpr uint32_t kItems = (kBarriersEnd + 15) / 16 * 16;
  static constexpr uint32_t kBytes = kItems + kItemSlots * kItemBytes;
};

__device__ inline int load_shared_word(uint32_t address) {
  int word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

__device__ inline void store_shared_word(uint32_t address, int word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

// The use'th use of a ring of buffers: which buffer, and the parity of the barrier that says it is
// full. The producer waits for "empty" with the other parity, which passes at once in the first
// round.
template <int kStages>
__device__ inline uint32_t ring_stage(uint32_t use) {
  return use % kStages;
}
template <int kStages>
__device__ inline uint32_t ring_parity(uint32_t use) {
  return use / kStages & 1;
}

// --- the producer --------------------------------------------------------------------------------

// Where the boxes of a K or V tile come from: each lane of the producer brings at most one.
struct BoxPlan {
  uint32_t offset;  // in the tile
  int column;
  int row;  // of the tile's first key
  bool active;
};

template <typename Config>
__device__ inline BoxPlan plan_box(const PrefillParams& params, int lane) {
  const int panel = lane % Config::kPanels;
  const int box = lane / Config::kPanels;
  const int row = box * params.box_rows;
  return {static_cast<uint32_t>((panel * Config::kBlockN + row) * kPanelRowBytes),
          panel * kPanelColumns, row, row < Config::kBlockN};
}

// The block of the cache that this lane's box of key block `n` lies in; one past the last (which
// reads as zeros) where the sequence has ended.
template <typename Config>
__device__ inline int cache_block(const PrefillParams& params, const BoxPlan& box, int seq,
                                  int num_keys, int n) {
  if (params.block_table == nullptr) return 0;
  const int key = n * Config::kBlockN + box.row;
  if (n < 0 || key >= num_keys || !box.active) return params.num_blocks;
  return params.block_table[seq * params.block_table_stride + (key >> params.block_size_log2)];
}

template <typename Config>
__device__ inline void load_q(const CUtensorMap& map, uint32_t shared, uint32_t use, int unit,
                              int q_row, int lane) {
  using Shared = PrefillShared<Config>;
  mbarrier_wait(shared + Shared::kQEmpty, ring_parity<1>(use) ^ 1);
  if (lane == 0) mbarrier_arrive_expect(shared + Shared::kQFull, Config::kQBytes);
  __syncwarp();
  if (lane < Config::kPanels) {
    tma_load_4d(shared + Shared::kQ + lane * Config::kBlockM * kPanelRowBytes, map,
                shared + Shared::kQFull, lane * kPanelColumns, 0, unit, q_row, l2_evict_first());
  }
}

// Brings a tile of K or V into the use'th buffer of its ring.
template <typename Config>
__device__ inline void load_tile(const CUtensorMap& map, uint32_t buffers, uint32_t full,
                                 uint32_t empty, uint32_t use, const BoxPlan& box, int row,
                                 int head, int block) {
  const uint32_t stage = ring_stage<Config::kStages>(use);
  mbarrier_wait(empty + 8 * stage, ring_parity<Config::kStages>(use) ^ 1);
  if (threadIdx.x == 0) mbarrier_arrive_expect(full + 8 * stage, Config::kTileBytes);
  __syncwarp();
  if (box.active) {
    tma_load_4d(buffers + stage * Config::kTileBytes + box.offset, map, full + 8 * stage,
                box.column, row, head, block, l2_evict_last());
  }
}

// A lane's word of the work on tile `tile`: its item, then the unit of heads.
__device__ inline int tile_word(const PrefillParams& params, int tile, int lane) {
  const int item = tile / params.units;
  if (lane == kUnitWord) return tile - item * params.units;
  if (lane > kUnitWord) return 0;
  return reinterpret_cast<const int*>(params.list->items() + item)[lane];
}

template <typename Config>
__device__ inline void publish_tile(uint32_t shared, uint32_t use, int word, int lane) {
  using Shared = PrefillShared<Config>;
  const uint32_t slot = ring_stage<kItemSlots>(use);
  mbarrier_wait(shared + Shared::kItemEmpty + 8 * slot, ring_parity<kItemSlots>(use) ^ 1);
  if (lane <= kUnitWord) {
    store_shared_word(shared + Shared::kItems + slot * kItemBytes + 4 * lane, word);
  }
  __syncwarp();
  if (lane == 0) mbarrier_arrive(shared + Shared::kItemFull + 8 * slot);
}

// Brings all keys and values of a tile, and Q after the first keys.
template <typename Config>
__device__ inline void load_item(const PrefillParams& params, const PrefillMaps& maps,
                                 uint32_t shared, const BoxPlan& box, int word, uint32_t& kv_use,
                                 uint32_t& q_use, int lane) {
  using Shared = PrefillShared<Config>;
  const auto field = [&](int i) { return __shfl_sync(0xFFFFFFFF, word, i); };
  const int num_keys = field(kNumKeysWord);
  const int kv_row = field(kKvRowWord);
  const int begin = field(kBeginWord);
  const int end = field(kEndWord);
  const int head = field(kUnitWord) / params.units_per_kv_head;
  const int first_row = params.block_table != nullptr ? 0 : kv_row;
  const auto row_of = [&](int n) {
    return first_row + ((n * Config::kBlockN + box.row) & params.row_mask);
  };
  const auto load_k = [&](int n, int block) {
    load_tile<Config>(maps.k, shared + Shared::kK, shared + Shared::kKFull,
                      shared + Shared::kKEmpty, kv_use + (end - 1 - n), box, row_of(n), head,
                      block);
  };
  const auto load_v = [&](int n, int block) {
    load_tile<Config>(maps.v, shared + Shared::kV, shared + Shared::kVFull,
                      shared + Shared::kVEmpty, kv_use + (end - 1 - n), box, row_of(n), head,
                      block);
  };
  if (begin >= end) return;
  // The table is read two blocks ahead.
  int block = cache_block<Config>(params, box, kv_row, num_keys, end - 1);
  int block_before = cache_block<Config>(params, box, kv_row, num_keys, end - 2);
  load_k(end - 1, block);
  load_q<Config>(maps.q, shared, q_use++, field(kUnitWord), field(kQRowWord), lane);
  for (int n = end - 1; n > begin; --n) {
    const int block_ahead = cache_block<Config>(params, box, kv_row, num_keys, n - 2);
    load_k(n - 1, block_before);
    load_v(n, block);
    block = block_before;
    block_before = block_ahead;
  }
  load_v(begin, block);
  kv_use += end - begin;
}

template <typename Config>
__device__ inline void producer_role(const PrefillParams& params, const PrefillMaps& maps,
                                     uint32_t shared) {
  const int lane = static_cast<int>(threadIdx.x);
  const int total = params.list->num_items * params.units;
  const BoxPlan box = plan_box<Config>(params, lane);
  uint32_t item_use = 0, q_use = 0, kv_use = 0;
  // The ticket wraps around after `total` draws: as many as a launch makes, since each block draws
  // once in vain.
  const auto draw = [&](int before) {
    if (lane != 0 || before >= total) return total;
    return static_cast<int>(gridDim.x + atomicInc(&params.list->ticket, total - 1));
  };
  // `next` is on its way while the block before `tile` is loaded, and its item while `tile` is.
  int tile = static_cast<int>(blockIdx.x);
  int next = draw(tile);
  int word = tile < total ? tile_word(params, tile, lane) : 0;
  while (tile < total) {
    publish_tile<Config>(shared, item_use++, word, lane);
    next = __shfl_sync(0xFFFFFFFF, next, 0);
    const int next_word = next < total ? tile_word(params, next, lane) : 0;
    const int after = draw(next);
    load_item<Config>(params, maps, shared, box, word, kv_use, q_use, lane);
    tile = next;
    word = next_word;
    next = after;
  }
  publish_tile<Config>(shared, item_use, kNoMoreWork, lane);
}

// --- the warpgroups that compute -----------------------------------------------------------------

// Counts the warp out of a buffer.
__device__ inline void release(uint32_t barrier) {
  if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}

__device__ inline int warpgroup_thread() {
  return static_cast<int>(threadIdx.x) % 128;
}

// The row in its tile of the thread's r-th row, r = 0 or 1.
__device__ inline int tile_row(int group, int r) {
  return group * 64 + accumulator_row(warpgroup_thread(), 2 * r);
}

// The keys that the thread's two rows see: low .. high - 1, counted from the thread's first column
// in block n. Worked out anew for every masked block: they are few, and registers are scarcer.
template <typename Config>
__device__ inline VisibleKeys visible_keys(const PrefillParams& params, uint32_t item, int group,
                                           int n) {
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

template <typename Config>
__device__ inline void issue_qk(float (&s)[Config::kBlockN / 2], uint64_t q, uint64_t k) {
#pragma unroll
  for (int step = 0; step < Config::kHeadDim / 16; ++step) {
    wgmma_qk(s, q + (k_major_step(Config::kBlockM, step) >> 4),
             k + (k_major_step(Config::kBlockN, step) >> 4), step > 0);
  }
  wgmma_commit();
}

template <typename Config>
__device__ inline void issue_pv(float (&o)[Config::kHeadDim / 2],
                                const uint32_t (&p)[Config::kBlockN / 4], uint64_t v) {
#pragma unroll
  for (int step = 0; step < Config::kBlockN / 16; ++step) {
    wgmma_pv(o, p + 4 * step, v + (mn_major_step(step) >> 4), true);
  }
  wgmma_commit();
}

// Rows of a V tile past the sequence's end become zeros: the weights there are zeros, but zero
// times what lies there need not be. Each warpgroup does it for itself before it reads the tile.
template <typename Config>
__device__ inline void clear_tail(uint32_t tile, int first_row, int group) {
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

template <typename Config>
__device__ inline void store_tile(const PrefillParams& params, uint32_t item, int group,
                                  const float (&o)[Config::kHeadDim / 2], const SoftmaxRows& rows) {
  const int quad = warpgroup_thread() % 4;
  const int first_head = load_shared_word(item + 4 * kUnitWord) << params.pack_log2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = tile_row(group, r);
    const int head = first_head + (row & ((1 << params.pack_log2) - 1));
    const int token = row >> params.pack_log2;
    const bool valid = token < load_shared_word(item + 4 * kNumTokensWord);
    const float sink = params.sinks != nullptr ? params.sinks[head] : -INFINITY;
    const RowResult result = finish_row(rows.max[r], rows.sum[r], params.scale_log2, sink);
    const int64_t out_row = static_cast<int64_t>(load_shared_word(item + 4 * kQRowWord)) + token;
    if (params.lse != nullptr && valid && quad == 0) {
      params.lse[static_cast<int64_t>(head) * params.num_tokens + out_row] = result.lse;
    }
    auto* out = params.out + (out_row * params.num_heads + head) * Config::kHeadDim + quad * 8;
#pragma unroll
    for (int column = 0; column < Config::kHeadDim; column += 32) {
      uint32_t pairs[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = (column / 8 + j) * 4 + 2 * r;
        pairs[j] = pack_bf16(o[i] * result.factor, o[i + 1] * result.factor);
      }
      quad_transpose(pairs, quad);
      if (valid) {
        *reinterpret_cast<uint4*>(out + column) =
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      }
    }
  }
}

// One tile: o, [64, head_dim] of the warpgroup, and what its rows have summed up. `use` counts
// blocks of keys since the launch.
template <typename Config>
__device__ inline void compute_tile(const PrefillParams& params, uint32_t shared, uint32_t item,
                                    int group, uint32_t& use, float (&o)[Config::kHeadDim / 2],
                                    SoftmaxRows& rows) {
  using Shared = PrefillShared<Config>;
  constexpr int kStages = Config::kStages;
  constexpr int kTurn = 2 * 128;  // threads at a turn's barrier: who waits and who hands over
  const auto wait_k = [&](uint32_t k_use) {
    mbarrier_wait(shared + Shared::kKFull + 8 * ring_stage<kStages>(k_use),
                  ring_parity<kStages>(k_use));
  };
  const auto wait_v = [&](uint32_t v_use) {
    mbarrier_wait(shared + Shared::kVFull + 8 * ring_stage<kStages>(v_use),
                  ring_parity<kStages>(v_use));
  };
  const uint64_t q_descriptor =
      k_major_descriptor(shared + Shared::kQ + group * 64 * kPanelRowBytes);
  float s[Config::kBlockN / 2];
  uint32_t p[Config::kBlockN / 4];
  const auto product_qk = [&](uint32_t k_use) {
    issue_qk<Config>(
        s, q_descriptor,
        k_major_descriptor(shared + Shared::kK + ring_stage<kStages>(k_use) * Config::kTileBytes));
  };
  const auto product_pv = [&](uint32_t v_use) {
    issue_pv<Config>(
        o, p,
        mn_major_descriptor(shared + Shared::kV + ring_stage<kStages>(v_use) * Config::kTileBytes,
                            Config::kBlockN));
  };
  const auto release_k = [&](uint32_t k_use) {
    release(shared + Shared::kKEmpty + 8 * ring_stage<kStages>(k_use));
  };
  const auto release_v = [&](uint32_t v_use) {
    release(shared + Shared::kVEmpty + 8 * ring_stage<kStages>(v_use));
  };
  float correction[2];

  int n = load_shared_word(item + 4 * kEndWord) - 1;
  wait_k(use);
  wgmma_fence();
  product_qk(use);
  wgmma_wait<0>();
  release_k(use);
  softmax_block<Config, true>(s, rows, correction, visible_keys<Config>(params, item, group, n),
                              params);
  pack_weights(p, s);
  if (const int keys = load_shared_word(item + 4 * kNumKeysWord) - n * Config::kBlockN;
      keys < Config::kBlockN) {
    wait_v(use);
    clear_tail<Config>(shared + Shared::kV + ring_stage<kStages>(use) * Config::kTileBytes, keys,
                       group);
  }

  const auto step = [&]<bool kMasked>() {
    wait_k(use + 1);
    named_barrier_sync(kTurnBarrier + group, kTurn);
    wgmma_fence();
    product_qk(use + 1);
    wait_v(use);
    wgmma_fence();
    product_pv(use);
    named_barrier_arrive(kTurnBarrier + (group + 1) % Config::kMmaGroups, kTurn);
    wgmma_wait<1>();
    release_k(use + 1);
    VisibleKeys keys;
    if constexpr (kMasked) keys = visible_keys<Config>(params, item, group, n);
    softmax_block<Config, kMasked>(s, rows, correction, keys, params);
    wgmma_wait<0>();
    release_v(use);
    ++use;
    rescale(o, correction);
    pack_weights(p, s);
  };
  const int begin = load_shared_word(item + 4 * kBeginWord);
  const int whole_begin = begin + (load_shared_word(item + 4 * kMaskedWord) & 0xFFFF);
  const int whole_end = n + 1 - (load_shared_word(item + 4 * kMaskedWord) >> 16);
  for (--n; n >= begin; --n) {
    if (n >= whole_end || n < whole_begin) {
      step.template operator()<true>();
    } else {
      step.template operator()<false>();
    }
  }

  release(shared + Shared::kQEmpty);
  wait_v(use);
  wgmma_fence();
  product_pv(use);
  wgmma_wait<0>();
  release_v(use);
  ++use;
}

template <typename Config>
__device__ inline void mma_role(const PrefillParams& params, uint32_t shared, int group) {
  using Shared = PrefillShared<Config>;
  uint32_t item_use = 0, q_use = 0, kv_use = 0;
  // The last warpgroup hands the first its first turn.
  if (group == Config::kMmaGroups - 1) named_barrier_arrive(kTurnBarrier, 2 * 128);
  while (true) {
    const uint32_t slot = ring_stage<kItemSlots>(item_use);
    const uint32_t item = shared + Shared::kItems + slot * kItemBytes;
    mbarrier_wait(shared + Shared::kItemFull + 8 * slot, ring_parity<kItemSlots>(item_use++));
    if (load_shared_word(item + 4 * kUnitWord) == kNoMoreWork) break;

    float o[Config::kHeadDim / 2];
#pragma unroll
    for (float& value : o) value = 0.0f;
    SoftmaxRows rows;
    if (load_shared_word(item + 4 * kBeginWord) < load_shared_word(item + 4 * kEndWord)) {
      mbarrier_wait(shared + Shared::kQFull, ring_parity<1>(q_use++));
      compute_tile<Config>(params, shared, item, group, kv_use, o, rows);
    }
    store_tile<Config>(params, item, group, o, rows);
    __syncwarp();
    release(shared + Shared::kItemEmpty + 8 * slot);
  }
}

template <typename Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    prefill_kernel(const PrefillParams params, const __grid_constant__ PrefillMaps maps) {
  using Shared = PrefillShared<Config>;
  extern __shared__ uint8_t dynamic_shared[];
  constexpr uint32_t kAlignment = kSwizzleAtomBytes;
  const uint32_t shared =
      (shared_address(dynamic_shared) + kAlignment - 1) / kAlignment * kAlignment;
  if (threadIdx.x == 0) {
    tma_prefetch_map(maps.q);
    tma_prefetch_map(maps.k);
    tma_prefetch_map(maps.v);
    constexpr uint32_t kReaders = Config::kMmaGroups * 4;  // one lane a warp
    const auto init_pairs = [&](uint32_t full, uint32_t empty, uint32_t count) {
      for (uint32_t i = 0; i < count; ++i) {
        mbarrier_init(full + 8 * i, 1);
        mbarrier_init(empty + 8 * i, kReaders);
      }
    };
    init_pairs(shared + Shared::kQFull, shared + Shared::kQEmpty, 1);
    init_pairs(shared + Shared::kKFull, shared + Shared::kKEmpty, Config::kStages);
    init_pairs(shared + Shared::kVFull, shared + Shared::kVEmpty, Config::kStages);
    init_pairs(shared + Shared::kItemFull, shared + Shared::kItemEmpty, kItemSlots);
    mbarrier_fence_init();
  }
  __syncthreads();

  // By a shuffle, so that the compiler knows the value to be the same in all lanes of a warp.
  const int group = __shfl_sync(0xFFFFFFFF, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    setmaxnreg_decrease<Config::kProducerRegisters>();
    if (threadIdx.x < 32) producer_role<Config>(params, maps, shared);
  } else {
    setmaxnreg_increase<Config::kMmaRegisters>();
    mma_role<Config>(params, shared, group - 1);
  }
}

template <typename Config>
cudaError_t launch_prefill(const PrefillParams& params, const PrefillMaps& maps, int num_blocks,
                           cudaStream_t stream) {
  // What aligning the start may cost is on top.
  constexpr int kSharedBytes = PrefillShared<Config>::kBytes + kSwizzleAtomBytes;
  const cudaError_t error = cudaFuncSetAttribute(
      prefill_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  prefill_kernel<Config><<<num_blocks, Config::kThreads, kSharedBytes, stream>>>(params, maps);
  return cudaGetLastError();
}

}  // namespace octavo::backends::cuda
