// Paged decode attention: the kernel, for any way of copying (decode_stream.cuh). A block takes a
// split of a sequence for one kv head and 8 or 16 query rows of its group. Its warps take tiles in
// turn, each with its own stream, softmax and output, and meet only at the end of the split, in
// shared memory. The block that finishes the last split of a sequence merges them all, in order.
#pragma once

#include "backends/cuda/tile/decode_math.cuh"
#include "backends/cuda/tile/decode_stream.cuh"

namespace octavo::backends::cuda {

template <int kHeadDim_, int kValueBytes, int kHalves_, template <class, int> class Copies_,
          int kWarps_, int kSharedBytes>
struct DecodeConfig {
  using Layout = DecodeLayout<kHeadDim_, kValueBytes>;
  template <class L, int kSlots>
  using Copies = Copies_<L, kSlots>;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kHalves = kHalves_;
  static constexpr int kTileRows = decode_tile_rows(kHeadDim);  // of a partial result
  static constexpr int kWarps = kWarps_;
  static constexpr int kThreads = 32 * kWarps;

  // Shared memory: the rings, then what blocks merge with.
  static constexpr int kMergeBytes = kWarps * 8 * (kHeadDim + 2) * 4;
  static constexpr int kSlots = (kSharedBytes - kMergeBytes - 1024) / (kWarps * Layout::kTileBytes);
  static_assert(kSlots >= 2);
  static constexpr int kRingBytes = kSlots * Layout::kTileBytes;
  static constexpr int kBytes = kWarps * kRingBytes + kMergeBytes + kWarps * kSlots * 8 + 32;
  using Stream = DecodeStream<Layout, Copies, kSlots, kWarps>;
};

// What warps, and later splits, are merged in: highest score, sum and four values of one row.
struct PartialRow {
  float highest = -INFINITY;
  float sum = 0.0f;
  float4 values = {0.0f, 0.0f, 0.0f, 0.0f};

  __device__ void add(float2 stats, float4 more) {
    const float top = fmaxf(highest, stats.x);
    if (top == -INFINITY) return;
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

template <class Config>
class DecodeBlock {
  using Layout = typename Config::Layout;
  using Stream = typename Config::Stream;
  static constexpr int kHalves = Config::kHalves;
  static constexpr int kVectors = Config::kHeadDim / 4;  // of four values, in a row

 public:
  __device__ DecodeBlock(const DecodeKernelArgs& launch, float4* merge, float2* stats, int* flag)
      : launch_(launch), args_(launch.args), merge_(merge), stats_(stats), flag_(flag) {}

  // All tiles of this warp. An item is loaded anew wherever it is needed, which keeps it out of the
  // registers of the inner loop.
  __device__ void attend(int index, Stream& stream) {
    const DecodeItem item = load_item(launch_, index);
    const ItemRows rows(launch_, item, Config::kTileRows);
    load_rows(rows);
    const TileLimits limits(rows);
    const int begin = item.work.begin;
    const int tiles = Stream::num_tiles(item, warp_);
    for (int tile = 0; tile < tiles; ++tile) {
      const int token = Stream::tile_token(begin, warp_, tile);
      Scores<Layout, kHalves> s;
      score_tile<Layout, kHalves>(s, rows_, stream.take());
      stream.give_back();
      scale_scores<Layout, kHalves>(s, rows_, args_.softcap);
      if (!limits.all_see(token)) mask_tile(s, token, index);
      softmax_tile<Layout, kHalves>(s, rows_);
      char* values = stream.take();
      if (!limits.all_exist(token)) clear_unseen(values, token, limits.begin, limits.end);
      add_value_tile<Layout, kHalves>(rows_, s, values);
      stream.give_back();
      stream.fill();
    }
  }

  // The warps' results become the block's: written to `out`, or a partial result.
  // `publish` runs in every thread before the first barrier.
  template <class Publish>
  __device__ void finish(int index, Publish publish) {
    const DecodeItem item = load_item(launch_, index);
    const ItemRows rows(launch_, item, Config::kTileRows);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int count = min(8, rows.count - 8 * half);
      write_warp(half, count);
      if (half == 0) publish();
      __syncthreads();
      for (int i = thread_; i < count * kVectors; i += Config::kThreads) {
        const int row = i / kVectors, vector = i % kVectors;
        PartialRow total;
        for (int warp = 0; warp < Config::kWarps; ++warp) {
          total.add(stats_[warp * 8 + row], merge_[merge_index(warp, row, vector)]);
        }
        if (item.work.num_splits == 1) {
          write_out(rows, 8 * half + row, vector, total);
        } else {
          write_partial(index, 8 * half + row, vector, total);
        }
      }
      __syncthreads();
    }
    if (item.work.num_splits > 1 && is_last_split(item)) merge_splits(index, rows);
  }

 private:
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
  __device__ void mask_tile(Scores<Layout, kHalves>& s, int token, int index) const {
    const DecodeItem item = load_item(launch_, index);
    const ItemRows rows(launch_, item, Config::kTileRows);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = 8 * half + 2 * (lane_ % 4) + i;
        const int lowest = rows.lowest_key(row) - token;
        const int highest = rows.highest_key(row) - token;
#pragma unroll
        for (int group = 0; group < Layout::kTokenGroups; ++group) {
          const int key = Layout::token(group, lane_ / 4);
          float& score = s[group / 2][half][group % 2 * 2 + i];
          if (key < lowest || key > highest) score = -INFINITY;
        }
      }
    }
  }

  __device__ void load_rows(const ItemRows& rows) {
    const DecodeItem& item = rows.item;
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
    Stream::fence();
    __syncwarp();
  }

  // Vectors of a row change places so that neither writing nor reading meets a bank twice.
  __device__ static int merge_index(int warp, int row, int vector) {
    const int pair = row / 2;
    const int swap = Layout::kSpanValues == 16 ? pair : pair % 2 + pair / 2 * 4;
    return (warp * 8 + row) * kVectors + (vector ^ swap);
  }

  __device__ void write_warp(int half, int count) {
    const int g = lane_ / 4, q = lane_ % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 2 * q + i;
      float sum = rows_.sum[half][i];
      for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(kWarpLanes, sum, lanes);
      if (row >= count) continue;
      if (g == 0) stats_[warp_ * 8 + row] = {rows_.highest[half][i], sum};
#pragma unroll
      for (int group = 0; group < Layout::kDimGroups; group += 4) {
        const auto& low = rows_.out[half][group / 2];
        const auto& high = rows_.out[half][group / 2 + 1];
        merge_[merge_index(warp_, row, Layout::out_dim(group, g) / 4)] = {low[i], low[2 + i],
                                                                          high[i], high[2 + i]};
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

  // The counter wraps to 0 at the last arrival, ready for the next launch.
  __device__ bool is_last_split(const DecodeItem& item) {
    if (thread_ == 0) {
      uint32_t* arrivals = launch_.workspace.arrivals + item.work.seq * launch_.heads.divisor() +
                           item.kv_head * launch_.row_tiles.divisor() + item.row_tile;
      const auto last = static_cast<uint32_t>(item.work.num_splits - 1);
      __threadfence();
      *flag_ = atomicInc(arrivals, last) == last;
      __threadfence();
    }
    __syncthreads();
    return *flag_ != 0;
  }

  __device__ void merge_splits(int index, const ItemRows& rows) {
    constexpr int kAtOnce = 8;  // loads in flight
    const DecodeWork& work = rows.item.work;
    const int stride = launch_.heads.divisor();
    const int first = index - work.split * stride;
    const auto* values = reinterpret_cast<const float4*>(launch_.workspace.partial_values);
    const auto* stats = reinterpret_cast<const float2*>(launch_.workspace.partial_stats);
    for (int i = thread_; i < min(rows.count, 8 * kHalves) * kVectors; i += Config::kThreads) {
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
  float4* merge_;  // [warps, 8, kVectors]
  float2* stats_;  // [warps, 8]
  int* flag_;
  int thread_ = static_cast<int>(threadIdx.x);
  int warp_ = thread_ / 32;
  int lane_ = thread_ % 32;
  DecodeRows<Layout, kHalves> rows_;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    attention_decode_kernel(const __grid_constant__ DecodeKernelArgs launch) {
  extern __shared__ __align__(128) char shared[];
  char* merge = shared + Config::kWarps * Config::kRingBytes;
  auto* stats = reinterpret_cast<float2*>(merge + Config::kWarps * 8 * Config::kHeadDim * 4);
  auto* barriers = reinterpret_cast<uint64_t*>(merge + Config::kMergeBytes);
  auto* mailbox = reinterpret_cast<int*>(barriers + Config::kWarps * Config::kSlots);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;

  pdl_launch_next();
  DecodeItems items(launch, mailbox);
  typename Config::Stream stream(launch, items, shared + warp * Config::kRingBytes,
                                 barriers + warp * Config::kSlots);
  stream.allow(1);
  stream.fill();
  stream.wait_for_previous();
  DecodeBlock<Config> block(launch, reinterpret_cast<float4*>(merge), stats, mailbox + 4);
  for (int ordinal = 0;; ++ordinal) {
    const int index = items.at(ordinal);
    if (index < 0) break;
    if (thread == 0) items.draw();
    block.attend(index, stream);
    block.finish(index, [&] {
      if (thread == 0) items.publish(ordinal);
    });
    stream.allow(ordinal + 2);
    stream.fill();
  }
}

}  // namespace octavo::backends::cuda
