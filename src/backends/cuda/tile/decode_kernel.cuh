// Paged decode attention: the kernel, for any way of copying (decode_stream.cuh). A block takes a
// split of a sequence for one kv head and 8 or 16 query rows of its group. Its warps take tiles in
// turn, each with its own softmax and output, and meet only at the end of the split, in shared
// memory. The block that finishes the last split of a sequence merges them all, in order.
#pragma once

#include "backends/cuda/ptx/sync.cuh"
#include "backends/cuda/tile/decode_math.cuh"
#include "backends/cuda/tile/decode_stream.cuh"

namespace octavo::backends::cuda {

// At most kMaxWarps compute; one more produces.
template <int kHeadDim_, int kValueBytes, int kHalves_, template <class> class Copies_,
          int kMaxWarps, int kSharedBytes_, int kBlocksEach_>
struct DecodeConfig {
  using Layout = DecodeLayout<kHeadDim_, kValueBytes>;
  using Copies = Copies_<Layout>;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kHalves = kHalves_;
  static constexpr int kTileRows = decode_tile_rows(kHeadDim);  // of a partial result
  static constexpr int kBlocksEach = kBlocksEach_;  // a multiprocessor holds at the same time
  static constexpr int kSharedBytes = kSharedBytes_;

  static constexpr int kStages = (kSharedBytes - 3072) / (2 * Layout::kTileBytes);
  // Each warp keeps a tile until its block is done with an item: there must be more than those.
  static constexpr int kWarps = kMaxWarps < kStages / 2 + 1 ? kMaxWarps : kStages / 2 + 1;
  static_assert(kStages >= 2 && kStages >= kWarps);
  static constexpr int kThreads = 32 * kWarps;  // that compute
  using Pipe = DecodePipe<Layout, kStages>;
  static constexpr int kRingBytes = kStages * Pipe::kStageBytes;
  // What a warp merges with lies in the tile that it read last.
  static_assert(8 * kHalves * kHeadDim * 4 <= Pipe::kStageBytes);
};

// Beside the ring: what warps tell each other, and what they note down.
template <class Config>
struct DecodeShared {
  typename Config::Pipe pipe;
  float2 stats[Config::kWarps][8 * Config::kHalves];  // highest score and sum of each row
  int2 seen[Config::kWarps][8 * Config::kHalves];     // first and last key, each warp for itself
  int values[Config::kWarps];                         // where a warp's values lie, in bytes
  int pending;       // an item whose split has ended but is not reported yet, or -1
  int merge_splits;  // the pending item's was its sequence's last
};

// What warps, and later splits, are merged in: highest score, sum and four values of one row.
struct PartialRow {
  float highest = -INFINITY;
  float sum = 0.0f;
  float4 values = {0.0f, 0.0f, 0.0f, 0.0f};

  __device__ void add(float2 stats, float4 more) {
    if (stats.x == -INFINITY) return;
    const float top = fmaxf(highest, stats.x);
    const float mine = exp2_approx(highest - top), theirs = exp2_approx(stats.x - top);
    highest = top;
    sum = sum * mine + stats.y * theirs;
    values.x = values.x * mine + more.x * theirs;
    values.y = values.y * mine + more.y * theirs;
    values.z = values.z * mine + more.z * theirs;
    values.w = values.w * mine + more.w * theirs;
  }
};

// The query rows of an item and which keys they see. A row is a token and a head of the group; rows
// past the item's last repeat it.
struct ItemRows {
  const DecodeKernelArgs& launch;
  const DecodeItem& item;
  int first;  // of the item's rows, among the sequence's
  int count;  // at most `tile_rows`; may be 0 or less

  __device__ ItemRows(const DecodeKernelArgs& kernel_args, const DecodeItem& of, int tile_rows)
      : launch(kernel_args),
        item(of),
        first(of.row_tile * tile_rows),
        count(min(tile_rows, of.num_rows)) {}

  __device__ int token(int row) const { return launch.group.divide(first + min(row, count - 1)); }
  __device__ int head(int row) const {
    return item.kv_head * launch.group.divisor() +
           launch.group.remainder(first + min(row, count - 1));
  }
  __device__ int position(int row) const {
    return item.work.num_keys - item.work.q_len + token(row);
  }
  __device__ int lowest_key(int row) const {
    return decode_lowest_key(position(row), launch.args.window_left, launch.args.chunk);
  }
  __device__ int highest_key(int row) const {
    const int last = item.work.end - 1;
    return launch.args.window_right < 0 ? last : min(last, position(row));
  }
};

// The warps that compute.
template <class Config>
class DecodeConsumers {
  using Layout = typename Config::Layout;
  using Pipe = typename Config::Pipe;
  static constexpr int kHalves = Config::kHalves;
  static constexpr int kVectors = Config::kHeadDim / 4;  // of four values, in a row

 public:
  __device__ DecodeConsumers(const DecodeKernelArgs& launch, char* ring,
                             DecodeShared<Config>& shared)
      : launch_(launch), args_(launch.args), ring_(ring), shared_(shared) {}

  __device__ void run() {
    if (thread_ == 0) shared_.pending = -1;
    pdl_wait();
    for (uint32_t ordinal = 0;; ++ordinal) {
      const DecodeItem& item = shared_.pipe.wait_item(ordinal);
      if (item.index < 0) break;
      const int held = attend(item);
      finish(item, held);
      if (held >= 0) {
        Config::Copies::fence();  // all have written where copies will go
        give_back(static_cast<uint32_t>(held));
      }
      if (lane_ == 0) shared_.pipe.give_back_item(ordinal);
    }
    report_pending();
    if (thread_ == 0) shared_.merge_splits = pending_is_last_;
    sync();
    if (shared_.merge_splits) merge_splits(shared_.pending);
  }

 private:
  __device__ static void sync() { named_barrier<Config::kThreads>(); }

  __device__ void give_back(uint32_t tile) {
    __syncwarp();
    if (lane_ == 0) shared_.pipe.give_back_tile(tile);
  }

  __device__ char* stage(uint32_t tile) { return ring_ + Pipe::stage(tile) * Pipe::kStageBytes; }

  // This warp's tiles of the item. Its last is not given back but returned, for `finish` to write
  // to; -1: it has none.
  __device__ int attend(const DecodeItem& item) {
    const ItemRows rows(launch_, item, Config::kTileRows);
    load_rows(rows);
    report_pending();
    const TileLimits limits(rows);
    const int begin = item.work.begin;
    const int tiles = Pipe::num_tiles(item);
    const uint32_t first = first_tile_;
    first_tile_ += static_cast<uint32_t>(tiles);
    int held = -1;
    for (int i = warp_; i < tiles; i += Config::kWarps) {
      if (held >= 0) give_back(static_cast<uint32_t>(held));
      const int token = begin + i * Layout::kTileTokens;
      const uint32_t tile = first + static_cast<uint32_t>(i);
      held = static_cast<int>(tile);
      char* keys = stage(tile);
      char* values = keys + Layout::kTileBytes;
      Scores<Layout, kHalves> s;
      shared_.pipe.wait_tile(tile);
      score_tile<Layout, kHalves>(s, rows_, keys);
      scale_scores<Layout, kHalves>(s, rows_, args_.softcap);
      if (!limits.all_see(token)) mask_tile(s, token);
      softmax_tile<Layout, kHalves>(s, rows_);
      if (!limits.all_exist(token)) clear_unseen(values, token, limits.begin, limits.end);
      add_value_tile<Layout, kHalves>(rows_, s, values);
    }
    return held;
  }

  // The warps' results become the block's: written to `out`, or as a partial result.
  __device__ void finish(const DecodeItem& item, int held) {
    const ItemRows rows(launch_, item, Config::kTileRows);
    if (held >= 0) {
      write_warp(stage(static_cast<uint32_t>(held)), rows.count);
    } else if (lane_ < rows.count) {
      shared_.stats[warp_][lane_] = {-INFINITY, 0.0f};
    }
    if (thread_ == 0) shared_.merge_splits = pending_is_last_;
    sync();
    for (int i = thread_; i < rows.count * kVectors; i += Config::kThreads) {
      const int row = i / kVectors, vector = i % kVectors;
      PartialRow total;
#pragma unroll
      for (int warp = 0; warp < Config::kWarps; ++warp) {
        const float2 stats = shared_.stats[warp][row];
        if (stats.x == -INFINITY) continue;  // then its values need not exist
        const auto* theirs = reinterpret_cast<const float4*>(ring_ + shared_.values[warp]);
        total.add(stats, theirs[merge_index(row, vector)]);
      }
      if (item.work.num_splits == 1) {
        write_out(rows, row, vector, total);
      } else {
        write_partial(item.index, row, vector, total);
      }
    }
    if (shared_.merge_splits) merge_splits(shared_.pending);
    sync();
    if (thread_ == 0) shared_.pending = item.work.num_splits > 1 ? item.index : -1;
  }

  // Bounds that tell tiles which need no mask from those that do.
  struct TileLimits {
    int begin, end;                           // keys that some row sees lie between
    int seen_by_all_begin, seen_by_all_last;  // every row sees these and all between

    __device__ explicit TileLimits(const ItemRows& rows)
        : begin(rows.lowest_key(0)),
          end(rows.item.work.end),
          seen_by_all_begin(rows.lowest_key(max(0, rows.count - 1))),
          seen_by_all_last(rows.highest_key(0)) {}

    __device__ bool all_see(int token) const {
      return token >= seen_by_all_begin && token + Layout::kTileTokens - 1 <= seen_by_all_last;
    }
    __device__ bool all_exist(int token) const {
      return token >= begin && token + Layout::kTileTokens <= end;
    }
  };

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

  __device__ void load_rows(const ItemRows& rows) {
    const DecodeItem& item = rows.item;
    if (lane_ < 8 * kHalves) {
      shared_.seen[warp_][lane_] = {rows.lowest_key(lane_), rows.highest_key(lane_)};
    }
    __syncwarp();
    rows_.clear();
    float scale = args_.scale * kLog2E;
    if (args_.k_scale != nullptr) scale *= args_.k_scale[item.kv_head * args_.scale_stride];
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int row = lane_ / 4 + 8 * half;
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
      const int at = row / Layout::kSlabTokens * Layout::kSlabStride +
                     row % Layout::kSlabTokens * Layout::kRowBytes + i % kChunks * 16;
      *reinterpret_cast<uint4*>(tile + at) = {0, 0, 0, 0};
    }
    Config::Copies::fence();
    __syncwarp();
  }

  // Vectors of a row change places so that neither writing nor reading meets a bank twice.
  __device__ static int merge_index(int row, int vector) {
    const int pair = row / 2 % 4;
    const int swap = Layout::kSpanValues == 16 ? pair : pair % 2 + pair / 2 * 4;
    return row * kVectors + (vector ^ swap);
  }

  __device__ void write_warp(char* values, int count) {
    const int g = lane_ / 4, q = lane_ % 4;
    __syncwarp();  // all lanes have read what lay there
    if (lane_ == 0) shared_.values[warp_] = static_cast<int>(values - ring_);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = 8 * half + 2 * q + i;
        float sum = rows_.sum[half][i];
        for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(kWarpLanes, sum, lanes);
        if (row >= count) continue;
        if (g == 0) shared_.stats[warp_][row] = {rows_.highest[half][i], sum};
        if (rows_.highest[half][i] == -INFINITY) continue;
#pragma unroll
        for (int group = 0; group < Layout::kDimGroups; group += 4) {
          const auto& low = rows_.out[half][group / 2];
          const auto& high = rows_.out[half][group / 2 + 1];
          const int to = merge_index(row, Layout::out_dim(group, g) / 4);
          reinterpret_cast<float4*>(values)[to] = {low[i], low[2 + i], high[i], high[2 + i]};
        }
      }
    }
  }

  __device__ void write_out(const ItemRows& rows, int row, int vector, const PartialRow& total) {
    const DecodeItem& item = rows.item;
    const int token = item.work.q_row + rows.token(row);
    const int head = rows.head(row);
    float sum = total.sum;
    if (args_.sinks != nullptr && sum > 0.0f) {
      sum += exp2_approx(args_.sinks[head] * kLog2E - total.highest);
    }
    float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
    if (args_.v_scale != nullptr) factor *= args_.v_scale[item.kv_head * args_.scale_stride];
    const __nv_bfloat162 low =
        __floats2bfloat162_rn(total.values.x * factor, total.values.y * factor);
    const __nv_bfloat162 high =
        __floats2bfloat162_rn(total.values.z * factor, total.values.w * factor);
    const int64_t at = static_cast<int64_t>(token) * args_.num_heads + head;
    static_cast<uint2*>(args_.out)[at * kVectors + vector] = {
        *reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)};
    if (vector == 0 && args_.lse != nullptr) {
      args_.lse[static_cast<int64_t>(head) * args_.num_tokens + token] =
          total.sum > 0.0f ? kLn2 * (total.highest + log2f(total.sum)) : -INFINITY;
    }
  }

  __device__ void write_partial(int index, int row, int vector, const PartialRow& total) {
    const int64_t at = static_cast<int64_t>(index) * Config::kTileRows + row;
    reinterpret_cast<float4*>(launch_.workspace.partial_values)[at * kVectors + vector] =
        total.values;
    if (vector == 0) {
      reinterpret_cast<float2*>(launch_.workspace.partial_stats)[at] = {total.highest, total.sum};
    }
  }

  // Says that the split before this item has ended. To wait until its partial result can be seen
  // costs little by now. The counter wraps to 0 at the last, ready for the next launch.
  __device__ void report_pending() {
    pending_is_last_ = false;
    if (thread_ != 0 || shared_.pending < 0) return;
    const DecodeItem item = load_item(launch_, shared_.pending);
    uint32_t* arrivals = launch_.workspace.arrivals + item.work.seq * launch_.heads.divisor() +
                         item.kv_head * launch_.row_tiles.divisor() + item.row_tile;
    const auto last = static_cast<uint32_t>(item.work.num_splits - 1);
    pending_is_last_ = atomic_inc_release(arrivals, last) == last;
  }

  // Of item `index`, in order.
  __device__ void merge_splits(int index) {
    constexpr int kAtOnce = 8;  // loads in flight
    const DecodeItem item = load_item(launch_, index);
    const ItemRows rows(launch_, item, Config::kTileRows);
    const DecodeWork& work = item.work;
    fence_acquire_release();  // what other blocks wrote before they arrived
    const int stride = launch_.heads.divisor();
    const int first = index - work.split * stride;
    const auto* values = reinterpret_cast<const float4*>(launch_.workspace.partial_values);
    const auto* stats = reinterpret_cast<const float2*>(launch_.workspace.partial_stats);
    for (int i = thread_; i < rows.count * kVectors; i += Config::kThreads) {
      const int row = i / kVectors, vector = i % kVectors;
      PartialRow total;
      for (int split = 0; split < work.num_splits; split += kAtOnce) {
        float4 more[kAtOnce];
        float2 more_stats[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int s = min(split + j, work.num_splits - 1);
          const int64_t at = static_cast<int64_t>(first + s * stride) * Config::kTileRows + row;
          more_stats[j] = __ldcg(stats + at);
          more[j] = __ldcg(values + at * kVectors + vector);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (split + j < work.num_splits) total.add(more_stats[j], more[j]);
        }
      }
      write_out(rows, row, vector, total);
    }
  }

  const DecodeKernelArgs& launch_;
  const DecodeArgs& args_;
  char* ring_;
  DecodeShared<Config>& shared_;
  uint32_t first_tile_ = 0;       // of the next item
  bool pending_is_last_ = false;  // known to thread 0
  int thread_ = static_cast<int>(threadIdx.x);
  int warp_ = thread_ / 32;
  int lane_ = thread_ % 32;
  DecodeRows<Layout, kHalves> rows_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads + 32, Config::kBlocksEach)
    attention_decode_kernel(const __grid_constant__ DecodeKernelArgs launch) {
  extern __shared__ __align__(128) char ring[];
  __shared__ DecodeShared<Config> shared;
  static_assert(Config::kRingBytes + sizeof(shared) <= Config::kSharedBytes);
  pdl_launch_next();
  if (threadIdx.x == 0) shared.pipe.init(Config::Copies::kArrivals, Config::kWarps);
  __syncthreads();
  if (threadIdx.x >= Config::kThreads) {
    using Producer =
        DecodeProducer<typename Config::Layout, typename Config::Copies, typename Config::Pipe>;
    Producer(launch, shared.pipe, ring).run();
  } else {
    DecodeConsumers<Config>(launch, ring, shared).run();
  }
}

}  // namespace octavo::backends::cuda
