// The warps of the decode kernel that merge: first what the warps of their block found in an item's
// tiles, then, in the block that finishes a sequence's last split, all its splits. Always in order,
// so that no result depends on who came first.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/ptx/exp2.cuh"
#include "backends/cuda/ptx/sync.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/tile/decode_config.cuh"
#include "backends/cuda/tile/decode_math.cuh"

namespace octavo::backends::cuda {

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

template <class Config>
class DecodeMerger {
  using Layout = typename Config::Layout;
  static constexpr int kVectors = Config::kHeadDim / 4;  // of four values, in a row
  static constexpr int kThreads = 32 * Config::kMergeWarps;

 public:
  // `values`: what the warps hand over, [warps, rows, kVectors] of float4.
  __device__ DecodeMerger(const DecodeKernelArgs& launch, const char* values,
                          DecodeShared<Config>& shared)
      : launch_(launch), args_(launch.args), values_(values), shared_(shared) {}

  __device__ void run() {
    pdl_wait();
    for (uint32_t ordinal = 0;; ++ordinal) {
      const DecodeItem& item = shared_.pipe.wait_item(ordinal);
      if (item.index < 0) break;
      const ItemRows rows(launch_, item, Config::kTileRows);
      mbarrier_wait(shared_address(&shared_.merge_full), ordinal & 1);
      merge_warps(rows);
      sync();
      if (thread_ == 0) mbarrier_arrive(shared_address(&shared_.merge_empty));
      if (item.work.num_splits > 1 && is_last_split(item)) merge_splits(rows);
      sync();
      if (thread_ == 0) shared_.pipe.give_back_item(ordinal);
    }
  }

 private:
  __device__ static void sync() { named_barrier_sync(1, kThreads); }

  __device__ void merge_warps(const ItemRows& rows) {
    for (int i = thread_; i < rows.count * kVectors; i += kThreads) {
      const int row = i / kVectors, vector = i % kVectors;
      PartialRow total;
#pragma unroll
      for (int warp = 0; warp < Config::kWarps; ++warp) {
        const float2 stats = shared_.stats[warp][row];
        if (stats.x == -INFINITY) continue;  // it had nothing to add and wrote no values
        const auto* theirs =
            reinterpret_cast<const float4*>(values_ + warp * Config::kWarpValueBytes);
        total.add(stats, theirs[merge_index<Layout>(row, vector)]);
      }
      if (rows.item.work.num_splits == 1) {
        write_out(rows, row, vector, total);
      } else {
        write_partial(rows.item.index, row, vector, total);
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
    if (!Layout::kTokenScales && args_.v_scale != nullptr) {
      factor *= args_.v_scale[item.kv_head * args_.scale_stride];
    }
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

  // Counts this split as ended. The counter wraps to 0 at the last, ready for the next launch.
  __device__ bool is_last_split(const DecodeItem& item) {
    if (thread_ == 0) {
      uint32_t* arrivals = launch_.workspace.arrivals + item.work.seq * launch_.heads.divisor() +
                           item.kv_head * launch_.row_tiles.divisor() + item.row_tile;
      const auto last = static_cast<uint32_t>(item.work.num_splits - 1);
      shared_.is_last_split = atomic_inc_release(arrivals, last) == last;
      if (shared_.is_last_split) fence_acquire_release();  // what other blocks wrote before
    }
    sync();
    return shared_.is_last_split != 0;
  }

  __device__ void merge_splits(const ItemRows& rows) {
    constexpr int kAtOnce = 8;  // loads in flight
    const DecodeWork& work = rows.item.work;
    const int stride = launch_.heads.divisor();
    const int first = rows.item.index - work.split * stride;
    const auto* values = reinterpret_cast<const float4*>(launch_.workspace.partial_values);
    const auto* stats = reinterpret_cast<const float2*>(launch_.workspace.partial_stats);
    for (int i = thread_; i < rows.count * kVectors; i += kThreads) {
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
  const char* values_;
  DecodeShared<Config>& shared_;
  int thread_ = static_cast<int>(threadIdx.x) - 32 * Config::kWarps;
};

}  // namespace octavo::backends::cuda
