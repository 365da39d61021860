// Paged decode attention: the kernel, for any way of copying. An item is a part of a sequence, one
// or more of its splits, for one kv head and 8 or 16 query rows of its group. In a block two warps
// copy (decode_stream.cuh); several compute (decode_math.cuh): they take a split's tiles in turn,
// each with its own softmax and output; others merge what those found (decode_merge.cuh). They
// hand over through barriers in shared memory, so that nobody waits for a latency of the others.
#pragma once

#include "backends/cuda/ptx/opaque.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/tile/decode_config.cuh"
#include "backends/cuda/tile/decode_merge.cuh"
#include "backends/cuda/tile/decode_scales.cuh"

namespace octavo::backends::cuda {

// The warps that compute.
template <class Config>
class DecodeWarp {
  using Layout = typename Config::Layout;
  using Pipe = typename Config::Pipe;
  static constexpr int kHalves = Config::kHalves;

 public:
  // `values`: what warps hand over, of each [rows, head_dim / 4] of float4.
  __device__ DecodeWarp(const DecodeKernelArgs& launch, char* ring, char* values,
                        DecodeShared<Config>& shared)
      : launch_(launch), args_(launch.args), ring_(ring), values_(values), shared_(shared) {}

  __device__ void run() {
    pdl_wait();
    for (;;) {
      shared_.pipe.wait_item(place().item);
      if (item().index < 0) break;
      load_rows(ItemRows(launch_, item(), Config::kTileRows));
      do {
        attend();
        mbarrier_wait(shared_address(&shared_.merge_empty), (place().split & 1) ^ 1);
        hand_over(min(Config::kTileRows, item().num_rows));
        __syncwarp();
        if (lane_ == 0) {
          mbarrier_arrive(shared_address(&shared_.merge_full));
          ++place().split;
          place().tile += split_tiles();
          place().begin += item().work.split_tokens;
        }
        __syncwarp();
      } while (place().begin < item().work.end);
      __syncwarp();  // all lanes have seen where the item ends
      if (lane_ == 0) shared_.pipe.give_back_item(place().item++);
      __syncwarp();
    }
  }

 private:
  __device__ DecodePlace& place() const { return shared_.places[opaque(threadIdx.x) / 32]; }
  __device__ const DecodeItem& item() const { return shared_.pipe.item(place().item); }

  __device__ int split_tiles() const {
    const int begin = place().begin;
    return Pipe::num_tiles(item(), begin, min(begin + item().work.split_tokens, item().work.end));
  }

  // Warps take tiles in turn, whatever split these are of: so a warp's next tile is always the
  // kWarps-th after its last (DecodePipe::wait_tile). Which part of the split a warp has is its
  // rank, so that its sums do not depend on what came before.
  __device__ int rank() const {
    const uint32_t warp = opaque(threadIdx.x) / 32;
    return static_cast<int>((warp + Config::kWarps - place().tile % Config::kWarps) %
                            Config::kWarps);
  }

  __device__ void attend() {
    rows_.clear();
    const DecodeLimits& limits = shared_.limits[warp_];
    const int begin = place().begin;
    const int tiles = split_tiles();
    Pipe& pipe = shared_.pipe;
    const uint32_t first = place().tile;
    for (int i = rank(); i < tiles; i += Config::kWarps) {
      const int token = begin + i * Layout::kTileTokens;
      const uint32_t tile = first + static_cast<uint32_t>(i);
      Scores<Layout, kHalves> s;
      pipe.wait_tile(kKeys, tile);
      const char* keys = ring_ + Pipe::offset(kKeys, tile);
      score_tile<Layout, kHalves>(s, rows_, keys);
      if constexpr (Layout::kTokenScales) scale_keys<Layout, kHalves>(s, token_scales(keys));
      pipe.give_back_tile(kKeys, tile);
      scale_scores<Layout, kHalves>(s, rows_, args_.softcap);
      if (!limits.all_see(token, Layout::kTileTokens)) {
        mask_tile(s, token);
        // The first query token is the one after those that every row sees.
        if (args_.tree_mask != nullptr) mask_tree(s, token - limits.seen_by_all_last - 1);
      }
      softmax_tile<Layout, kHalves>(s, rows_);
      pipe.wait_tile(kValues, tile);
      char* values = ring_ + Pipe::offset(kValues, tile);
      if (!limits.all_exist(token, Layout::kTileTokens))
        clear_unseen(values, token, limits.begin, limits.end);
      if constexpr (Layout::kTokenScales) {
        scale_probabilities<Layout, kHalves>(s, rows_, token_scales(values));
      }
      add_value_tile<Layout, kHalves>(rows_, s, values);
      pipe.give_back_tile(kValues, tile);
    }
  }

  __device__ static const float* token_scales(const char* tile) {
    return reinterpret_cast<const float*>(tile + Layout::kScaleOffset);
  }

  // Scores of keys that a row does not see become -infinity.
  __device__ void mask_tile(Scores<Layout, kHalves>& s, int token) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int2 seen = shared_.seen[warp_][8 * half + 2 * (lane_ % 4) + i];
#pragma unroll
        for (int group = 0; group < Layout::kTokenGroups; ++group) {
          const int key = token + Layout::token(group, lane_ / 4);
          float& score = s[group / 2][half][group % 2 * 2 + i];
          if (key < seen.x || key > seen.y) score = -INFINITY;
        }
      }
    }
  }

  // The same for query tokens that a row does not descend from. `first`: the tile's first token,
  // counted from the first query token.
  __device__ void mask_tree(Scores<Layout, kHalves>& s, int first) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint64_t seen = shared_.tree[warp_][8 * half + 2 * (lane_ % 4) + i];
#pragma unroll
        for (int group = 0; group < Layout::kTokenGroups; ++group) {
          const int query = first + Layout::token(group, lane_ / 4);
          float& score = s[group / 2][half][group % 2 * 2 + i];
          if (query >= 0 && (query >= 64 || (seen >> query & 1) == 0)) score = -INFINITY;
        }
      }
    }
  }

  __device__ void load_rows(const ItemRows& rows) {
    const DecodeItem& item = rows.item;
    const auto thread = static_cast<int>(opaque(threadIdx.x));
    const int warp = thread / 32, lane = thread % 32;
    if (lane < 8 * kHalves) {
      shared_.seen[warp][lane] = {rows.lowest_key(lane), rows.highest_key(lane)};
      if (args_.tree_mask != nullptr) {
        shared_.tree[warp][lane] = args_.tree_mask[item.work.q_row + rows.token(lane)];
      }
    }
    if (lane == 0) {
      DecodeLimits& limits = shared_.limits[warp];
      limits.begin = rows.lowest_key(0);
      limits.end = item.work.end;
      limits.seen_by_all_begin = rows.lowest_key(max(0, rows.count - 1));
      limits.seen_by_all_last =
          args_.tree_mask != nullptr ? rows.first_query_key() - 1 : rows.highest_key(0);
      place().begin = item.work.begin;
    }
    __syncwarp();
    float scale = args_.scale * kLog2E;
    if (!Layout::kTokenScales && args_.k_scale != nullptr) {
      scale *= args_.k_scale[item.kv_head * args_.scale_stride];
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int row = lane / 4 + 8 * half;
      const int64_t at = static_cast<int64_t>(item.work.q_row + rows.token(row)) * args_.num_heads +
                         rows.head(row);
      const void* q = static_cast<const char*>(args_.q) + at * Config::kHeadDim * 2;
      load_query<Layout, kHalves>(rows_, half, q, scale);
    }
  }

  // Values of keys that do not exist, or that no row sees, become 0: their probability is 0, but
  // what lies there may be NaN.
  __device__ void clear_unseen(char* tile, int token, int begin, int end) {
    constexpr int kChunks = Layout::kRowBytes / 16;
    for (int i = lane_; i < Layout::kTileTokens * kChunks; i += 32) {
      const int row = i / kChunks;
      if (token + row >= begin && token + row < end) continue;
      *reinterpret_cast<uint4*>(tile + 16 * i) = {0, 0, 0, 0};
    }
    __syncwarp();
  }

  __device__ void hand_over(int count) {
    const auto thread = static_cast<int>(opaque(threadIdx.x));
    const int g = thread % 32 / 4, q = thread % 4, from = rank();
    auto* values = reinterpret_cast<float4*>(values_ + from * Config::kWarpValueBytes);
    const float unit = Layout::kTokenScales ? __int_as_float(rows_.unit << 23) : 1.0f;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = 8 * half + 2 * q + i;
        float sum = rows_.sum[half][i];
        for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(kWarpLanes, sum, lanes);
        if (row >= count) continue;
        if (g == 0) shared_.stats[from][row] = {rows_.highest[half][i], sum};
        if (rows_.highest[half][i] == -INFINITY) continue;
#pragma unroll
        for (int group = 0; group < Layout::kDimGroups; group += 4) {
          auto& low = rows_.out[half][group / 2];
          auto& high = rows_.out[half][group / 2 + 1];
          if constexpr (Layout::kTokenScales) {
            low[i] *= unit, low[2 + i] *= unit, high[i] *= unit, high[2 + i] *= unit;
          }
          const int to = merge_index<Layout>(row, Layout::out_dim(group, g) / 4);
          values[to] = {low[i], low[2 + i], high[i], high[2 + i]};
        }
      }
    }
  }

  const DecodeKernelArgs& launch_;
  const DecodeArgs& args_;
  char* ring_;
  char* values_;
  DecodeShared<Config>& shared_;
  int warp_ = static_cast<int>(threadIdx.x) / 32;
  int lane_ = static_cast<int>(threadIdx.x) % 32;
  DecodeRows<Layout, kHalves> rows_;
};

// `multiprocessors`: of the GPU. Where one block on each is enough for all items, further blocks
// make room for the next launch's. The others stay, items or not: this launch may not end before
// the one before it.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksEach)
    attention_decode_kernel(const __grid_constant__ DecodeKernelArgs launch, int multiprocessors) {
  using Layout = typename Config::Layout;
  using Copies = typename Config::Copies;
  using Pipe = typename Config::Pipe;
  extern __shared__ __align__(128) char ring[];
  __shared__ DecodeShared<Config> shared;
  static_assert(Config::kDynamicBytes + sizeof(shared) <= Config::kSharedBytes);
  constexpr int kProducer = Config::kWarps + Config::kMergeWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  char* values = ring + Config::Pipe::kRingBytes;

  if (!launch.after_plan) pdl_launch_next();
  if (static_cast<int>(blockIdx.x) >= multiprocessors && !launch.after_plan &&
      launch.workspace.header->num_items <= multiprocessors) {
    return;
  }
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  if (warp < Config::kWarps) {
    if constexpr (Config::kMovesRegisters) setmaxnreg_increase<152>();
    DecodeWarp<Config>(launch, ring, values, shared).run();
  } else {
    if constexpr (Config::kMovesRegisters) setmaxnreg_decrease<104>();
    if (warp < kProducer) {
      DecodeMerger<Config>(launch, values, shared).run();
    } else if (warp == kProducer) {
      DecodeProducer<Layout, Copies, Pipe, kKeys>(launch, shared.pipe, ring).run();
    } else {
      DecodeProducer<Layout, Copies, Pipe, kValues>(launch, shared.pipe, ring).run();
    }
  }
}

}  // namespace octavo::backends::cuda
