// The prefill kernel: a block an SM takes tiles of queries from the work list. Two
// warps (the producer) bring Q, K and V by TMA; two or three warpgroups of 64 rows each compute.
// Blocks of keys run from the last to the first, so that the masked ones at the diagonal come
// first.
//
// Overlap is the algorithm. Inside a warpgroup the product QK of block n is issued together with PV
// of the block before, whose softmax is done. Between warpgroups a token (a ring of named barriers)
// lets them issue in turns, so that one's softmax runs under the other's products.
//
// Several query heads of a key/value head share a tile where their number has a power of two as a
// factor (`pack`): row r of a tile is head r % pack of token r / pack.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/ptx/wgmma.cuh"
#include "backends/cuda/sm90/attention_prefill_producer.cuh"
#include "backends/cuda/sm90/attention_prefill_rows.cuh"

namespace octavo::backends::cuda {

// A warpgroup's work on its 64 rows of every tile that the block takes. With two buffers for Q the
// products never pause between tiles: QK of a tile's first block is issued together with PV of the
// last block of the tile before.
template <typename Config>
class MmaWarpgroup {
 public:
  __device__ MmaWarpgroup(const TmaPrefillParams& params, uint32_t shared, int group)
      : params_(params), shared_(shared), group_(group) {}

  __device__ __forceinline__ void run() {
    // The last warpgroup hands the first its first turn.
    if (group_ == Config::kMmaGroups - 1) named_barrier_arrive(kTurnBarrier, kTurn);
    if constexpr (Config::kQStages > 1) {
      if (!next_tile()) return;
      first_block<false>({});
      while (true) {
        middle_blocks();
        const OutputTile done = leave_tile();
        if (!next_tile()) return last_block(done);
        first_block<true>(done);
      }
    } else {
      while (next_tile()) {
        first_block<false>({});
        middle_blocks();
        last_block(leave_tile());
      }
    }
  }

 private:
  using Shared = PrefillShared<Config>;
  static constexpr int kStages = Config::kStages;
  static constexpr int kTurn = 2 * 128;  // threads at a turn's barrier: who waits, who hands over

  __device__ __forceinline__ int word(int i) const { return load_shared_word(item_ + 4 * i); }

  // By a shuffle, so that the compiler knows all lanes to agree: what loops count up to their ends
  // stays in uniform registers.
  __device__ __forceinline__ int uniform_word(int i) const {
    return __shfl_sync(0xFFFFFFFF, word(i), 0);
  }

  // Waits for the next tile that has keys to visit; those without are answered on the way. False:
  // there is no more work.
  __device__ __forceinline__ bool next_tile() {
    while (true) {
      const uint32_t slot = ring_stage<kItemSlots>(item_use_);
      item_ = shared_ + Shared::kItems + slot * kItemBytes;
      mbarrier_wait(shared_ + Shared::kItemFull + 8 * slot, ring_parity<kItemSlots>(item_use_));
      if (uniform_word(kUnitWord) == kNoMoreWork) return false;
      mbarrier_wait(shared_ + Shared::kQFull + 8 * ring_stage<Config::kQStages>(item_use_),
                    ring_parity<Config::kQStages>(item_use_));
      if (uniform_word(kBeginWord) < uniform_word(kEndWord)) {
        if constexpr (Config::kFp8) prepare_fp8();
        return true;
      }
      store_nothing<Config::kHeadDim>(params_, leave_tile(), group_);
    }
  }

  // The warpgroup's queries become half precision; the scales of the tile's head are looked up.
  __device__ __forceinline__ void prepare_fp8() {
    const uint32_t q = shared_ + Shared::kQ + group_ * 64 * kPanelRowBytes;
    static_assert(Config::kQStages == 1);
    for (int panel = 0; panel < Config::kPanels; ++panel) {
      for (int i = warpgroup_thread(); i < 64 * kPanelRowBytes / 16; i += 128) {
        convert_bf16_chunk(q + panel * Config::kBlockM * kPanelRowBytes + i * 16);
      }
    }
    fence_async_shared();
    named_barrier_sync(kTailBarrier + group_, 128);
    const int at = word(kUnitWord) / params_.units_per_kv_head * params_.scale_stride;
    score_ = params_.score;
    if (params_.k_scale != nullptr) score_ = scaled(score_, params_.softcap, params_.k_scale[at]);
    if (params_.v_scale != nullptr) value_scale_ = params_.v_scale[at];
  }

  __device__ __forceinline__ const ScoreScale& score() const {
    if constexpr (Config::kFp8) return score_;
    return params_.score;
  }

  __device__ __forceinline__ void wait_k(uint32_t use) const {
    mbarrier_wait(shared_ + Shared::kKFull + 8 * ring_stage<kStages>(use),
                  ring_parity<kStages>(use));
  }
  __device__ __forceinline__ void wait_v(uint32_t use) const {
    mbarrier_wait(shared_ + Shared::kVFull + 8 * ring_stage<kStages>(use),
                  ring_parity<kStages>(use));
  }
  __device__ __forceinline__ bool k_is_there(uint32_t use) const {
    return mbarrier_test_wait(shared_ + Shared::kKFull + 8 * ring_stage<kStages>(use),
                              ring_parity<kStages>(use));
  }
  __device__ __forceinline__ bool v_is_there(uint32_t use) const {
    return mbarrier_test_wait(shared_ + Shared::kVFull + 8 * ring_stage<kStages>(use),
                              ring_parity<kStages>(use));
  }
  __device__ __forceinline__ void release_k(uint32_t use) const {
    release(shared_ + Shared::kKEmpty + 8 * ring_stage<kStages>(use));
  }
  __device__ __forceinline__ void release_v(uint32_t use) const {
    release(shared_ + Shared::kVEmpty + 8 * ring_stage<kStages>(use));
  }

  // The warpgroup's rows of Q in shared memory. By a shuffle each time: kept over a loop, the
  // descriptors would lie in ordinary registers, of which there are none to spare.
  __device__ __forceinline__ uint32_t q_address() const {
    const uint32_t q = shared_ + Shared::kQ +
                       ring_stage<Config::kQStages>(item_use_) * Config::kQBytes +
                       group_ * 64 * kPanelRowBytes;
    return __shfl_sync(0xFFFFFFFF, q, 0);
  }

  __device__ __forceinline__ void issue_qk(uint32_t q_address, uint32_t use) {
    const uint64_t q = k_major_descriptor(q_address);
    const uint64_t k = advance(k_major_descriptor(shared_ + Shared::kK),
                               ring_stage<kStages>(use) * Config::kTileBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Config::kHeadDim / 16; ++step) {
      const uint64_t a = advance(q, k_major_step(Config::kBlockM, step));
      const uint64_t b = advance(k, k_major_step(Config::kBlockN, step));
      if constexpr (Config::kFp8) {
        wgmma_qk_f16(s_, a, b, step > 0);
      } else {
        wgmma_qk_bf16(s_, a, b, step > 0);
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void issue_pv(uint32_t use) {
    const uint64_t v = advance(mn_major_descriptor(shared_ + Shared::kV, Config::kBlockN),
                               ring_stage<kStages>(use) * Config::kTileBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Config::kBlockN / 16; ++step) {
      const uint64_t b = advance(v, mn_major_step(step));
      if constexpr (Config::kFp8) {
        wgmma_pv_f16(o_, p_ + 4 * step, b, true);
      } else {
        wgmma_pv_bf16(o_, p_ + 4 * step, b, true);
      }
    }
    wgmma_commit();
  }

  // All blocks but the first, up to the last one's weights. Most need no mask: the inner loop.
  __device__ __forceinline__ void middle_blocks() {
    const int begin = uniform_word(kBeginWord);
    const int end = uniform_word(kEndWord);
    const int masked = uniform_word(kMaskedWord);
    const int whole_begin = begin + (masked & 0xFFFF);
    const int whole_end = end - (masked >> 16);
    int n = end - 2;
    while (true) {
      for (; n >= whole_begin && n < whole_end; --n) next_block<false>(n);
      if (n < begin) return;
      next_block<true>(n);
      --n;
    }
  }

  // Q and the item are read for the last time: the producer may replace them.
  __device__ __forceinline__ OutputTile leave_tile() {
    release(shared_ + Shared::kQEmpty + 8 * ring_stage<Config::kQStages>(item_use_));
    const OutputTile tile = output_tile(params_, item_);
    __syncwarp();
    release(shared_ + Shared::kItemEmpty + 8 * ring_stage<kItemSlots>(item_use_));
    ++item_use_;
    return tile;
  }

  // In its turn: QK of the next block, and PV of the block whose weights are there. Issuing takes
  // as long as the products do but for the last, so that all else a warpgroup does for a block must
  // fit into the other's turn: what can be looked up for the next turn is, while PV ends.
  __device__ __forceinline__ void multiply_both() {
    const uint32_t q = q_address();
    if (!tiles_are_there_) {
      wait_k(use_ + 1);
      wait_v(use_);
    }
    named_barrier_sync(kTurnBarrier + group_, kTurn);
    issue_qk(q, use_ + 1);
    issue_pv(use_);
    named_barrier_arrive(kTurnBarrier + (group_ + 1) % Config::kMmaGroups, kTurn);
    wgmma_wait<1>();
    release_k(use_ + 1);
    tiles_are_there_ = k_is_there(use_ + 2) & v_is_there(use_ + 1);
    finish_pv();
  }

  __device__ __forceinline__ void finish_pv() {
    wgmma_wait<0>();
    release_v(use_);
    ++use_;
  }

  // Block n of the tile at hand, after the one to its right. Few blocks raise a row's maximum, so
  // the weights are made with the maxima as they are, which needs no wait for the block's own, and
  // made anew where that was wrong.
  template <bool kMasked>
  __device__ __forceinline__ void next_block(int n) {
    multiply_both();
    if constexpr (Config::kSoftcap) softcap_scores(s_, score());
    if constexpr (kMasked) mask_scores(s_, visible_keys<Config>(params_, item_, group_, n));
    float sum[2], largest[2], correction[2] = {1.0f, 1.0f};
    if constexpr (Config::kGuessesMaxima) {
      weigh<Config::kFp8>(p_, sum, largest, s_, weight_bases<false>(rows_, score()), score());
      if (keeps_maxima(rows_, largest, score())) {
        for (int r = 0; r < 2; ++r) rows_.sum[r] += sum[r];
        return;
      }
    } else {
      for (int r = 0; r < 2; ++r) largest[r] = thread_max(s_, r);
    }
    if (Config::kGuessesMaxima || !keeps_maxima(rows_, largest, score())) {
      raise_maxima(rows_, correction, largest, score());
      rescale(o_, correction);
    }
    weigh<Config::kFp8>(p_, sum, largest, s_, weight_bases<kMasked>(rows_, score()), score());
    for (int r = 0; r < 2; ++r) rows_.sum[r] = fmaf(rows_.sum[r], correction[r], sum[r]);
  }

  // The first (rightmost) block of a new tile. kCross: while the last of `before` is finished.
  template <bool kCross>
  __device__ __forceinline__ void first_block(const OutputTile& before) {
    if constexpr (kCross) {
      multiply_both();
    } else {
      wait_k(use_);
      issue_qk(q_address(), use_);
      wgmma_wait<0>();
      release_k(use_);
    }
    const int n = uniform_word(kEndWord) - 1;
    if constexpr (Config::kSoftcap) softcap_scores(s_, score());
    mask_scores(s_, visible_keys<Config>(params_, item_, group_, n));
    SoftmaxRows rows;
    float correction[2];
    float largest[2] = {thread_max(s_, 0), thread_max(s_, 1)};
    raise_maxima(rows, correction, largest, score());
    weigh<Config::kFp8>(p_, rows.sum, largest, s_, weight_bases<true>(rows, score()), score());
    if constexpr (kCross) {
      store_tile<Config::kHeadDim>(params_, before, group_, o_, rows_, score().log2, value_scale_);
    }
    rows_ = rows;
#pragma unroll
    for (int i = 0; i < Config::kHeadDim / 2; ++i) o_[i] = 0.0f;
    const int keys_left = uniform_word(kNumKeysWord) - n * Config::kBlockN;
    if (keys_left < Config::kBlockN) {
      wait_v(use_);
      clear_tail<Config>(shared_ + Shared::kV + ring_stage<kStages>(use_) * Config::kTileBytes,
                         keys_left, group_);
    }
  }

  __device__ __forceinline__ void last_block(const OutputTile& tile) {
    wait_v(use_);
    issue_pv(use_);
    finish_pv();
    tiles_are_there_ = false;
    store_tile<Config::kHeadDim>(params_, tile, group_, o_, rows_, score().log2, value_scale_);
  }

  const TmaPrefillParams& params_;
  const uint32_t shared_;
  const int group_;
  uint32_t item_ = 0;  // the tile at hand, in shared memory
  uint32_t item_use_ = 0;
  bool tiles_are_there_ = false;  // what the next turn multiplies
  uint32_t use_ = 0;  // the block of keys whose weights are in p_, counted since the launch
  float o_[Config::kHeadDim / 2];
  float s_[Config::kBlockN / 2];
  uint32_t p_[Config::kBlockN / 4];
  SoftmaxRows rows_;
  ScoreScale score_;  // of E4M3
  float value_scale_ = 1.0f;
};

template <typename Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    prefill_kernel(const TmaPrefillParams params, const __grid_constant__ PrefillMaps maps) {
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
    const auto init_pairs = [](uint32_t full, uint32_t empty, uint32_t count, uint32_t readers,
                               uint32_t writers = 1) {
      for (uint32_t i = 0; i < count; ++i) {
        mbarrier_init(full + 8 * i, writers);
        mbarrier_init(empty + 8 * i, readers);
      }
    };
    init_pairs(shared + Shared::kQFull, shared + Shared::kQEmpty, Config::kQStages, kReaders);
    constexpr uint32_t kWriters = Config::kFp8 ? Config::kConvertWarps / 2 : 1;  // of K, of V
    init_pairs(shared + Shared::kKFull, shared + Shared::kKEmpty, Config::kStages, kReaders,
               kWriters);
    init_pairs(shared + Shared::kVFull, shared + Shared::kVEmpty, Config::kStages, kReaders,
               kWriters);
    init_pairs(shared + Shared::kItemFull, shared + Shared::kItemEmpty, kItemSlots,
               kReaders + 1 + Config::kConvertWarps);
    if constexpr (Config::kFp8) {
      init_pairs(shared + Shared::kRawKFull, shared + Shared::kRawKEmpty, Config::kRawStages,
                 kWriters);
      init_pairs(shared + Shared::kRawVFull, shared + Shared::kRawVEmpty, Config::kRawStages,
                 kWriters);
    }
    mbarrier_fence_init();
  }
  pdl_wait();
  __syncthreads();

  // By a shuffle, so that the compiler knows the value to be the same in all lanes of a warp.
  const int group = __shfl_sync(0xFFFFFFFF, static_cast<int>(threadIdx.x) / 128, 0);
  const int warp = __shfl_sync(0xFFFFFFFF, static_cast<int>(threadIdx.x) / 32 % 4, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (group == 0) {
    setmaxnreg_decrease<Config::kProducerRegisters>();
    if (warp == 0) key_role<Config>(params, maps, shared, lane);
    if (warp == 1) value_role<Config>(params, maps, shared, lane);
    if constexpr (Config::kFp8 && !Config::kConvertGroup) {
      if (warp >= 2) convert_role<Config>(shared, warp - 2, lane);
    }
  } else if (group > Config::kMmaGroups) {
    if constexpr (Config::kConvertGroup) {
      setmaxnreg_decrease<Config::kConvertRegisters>();
      convert_role<Config>(shared, warp, lane);
    }
  } else {
    setmaxnreg_increase<Config::kMmaRegisters>();
    MmaWarpgroup<Config>(params, shared, group - 1).run();
  }
}

template <typename Config>
cudaError_t launch_prefill(const TmaPrefillParams& params, const PrefillMaps& maps, int num_blocks,
                           cudaStream_t stream) {
  // What aligning the start may cost is on top.
  constexpr int kSharedBytes = PrefillShared<Config>::kBytes + kSwizzleAtomBytes;
  const cudaError_t error = cudaFuncSetAttribute(
      prefill_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(num_blocks)),
                             .block = dim3(Config::kThreads),
                             .shared_bytes = kSharedBytes,
                             .overlap_previous = true};
  return try_launch(prefill_kernel<Config>, shape, stream, params, maps);
}

}  // namespace octavo::backends::cuda
