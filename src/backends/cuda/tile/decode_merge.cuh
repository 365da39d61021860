// The warps of the decode kernel that merge: first what the warps of their block found in a split's
// tiles, then the splits of the item, then, in the block that ends a sequence's last part, its
// parts. Always in one order, warps of a split, splits of a pair, pairs of four, these of a
// sequence, so that no result depends on who came first, or on which splits a block had.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/ptx/exp2.cuh"
#include "backends/cuda/ptx/sync.cuh"
#include "backends/cuda/ptx/warpgroup.cuh"
#include "backends/cuda/tile/decode_config.cuh"
#include "backends/cuda/tile/decode_math.cuh"

namespace octavo::backends::cuda {

// What is merged: highest score, sum and four values of one row.
struct PartialRow {
  float highest = -INFINITY;
  float sum = 0.0f;
  float4 values = {0.0f, 0.0f, 0.0f, 0.0f};

  // Adds products by `mine` and `theirs`. Spelled out: a compiler may round either product first,
  // and not the same in every place.
  __device__ static float mix(float a, float mine, float b, float theirs) {
    return __fmaf_rn(b, theirs, __fmul_rn(a, mine));
  }
  __device__ void add(const PartialRow& more) {
    const float top = fmaxf(highest, more.highest);
    const float base = top == -INFINITY ? 0.0f : top;
    const float mine = exp2_approx(highest - base), theirs = exp2_approx(more.highest - base);
    highest = top;
    sum = mix(sum, mine, more.sum, theirs);
    values.x = mix(values.x, mine, more.values.x, theirs);
    values.y = mix(values.y, mine, more.values.y, theirs);
    values.z = mix(values.z, mine, more.values.z, theirs);
    values.w = mix(values.w, mine, more.values.w, theirs);
  }
  __device__ void append(const PartialRow& more, bool is_first) {
    if (is_first) {
      *this = more;
    } else {
      add(more);
    }
  }
};

template <class Config>
class DecodeMerger {
  using Layout = typename Config::Layout;
  static constexpr int kVectors = Config::kHeadDim / 4;  // of four values, in a row
  static constexpr int kThreads = 32 * Config::kMergeWarps;
  static constexpr int kEach = Config::kRows * kVectors / kThreads;  // vectors of a thread
  static_assert(kEach * kThreads == Config::kRows * kVectors);

 public:
  // `values`: what the warps hand over, [warps, rows, kVectors] of float4.
  __device__ DecodeMerger(const DecodeKernelArgs& launch, char* values,
                          DecodeShared<Config>& shared)
      : launch_(launch), args_(launch.args), values_(values), shared_(shared) {}

  __device__ void run() {
    pdl_wait();
    uint32_t handed_over = 0;
    for (uint32_t ordinal = 0;; ++ordinal) {
      const DecodeItem& item = shared_.pipe.wait_item(ordinal);
      if (item.index < 0) break;
      const ItemRows rows(launch_, item, Config::kTileRows);
      merge_splits(rows, handed_over);
      if (item.work.num_parts > 1 && is_last_part(item)) merge_parts(rows);
      sync();
      if (thread_ == 0) shared_.pipe.give_back_item(ordinal);
    }
  }

 private:
  __device__ static void sync() { named_barrier_sync(1, kThreads); }

  // `handed_over`: counts the splits of all items.
  __device__ void merge_splits(const ItemRows& rows, uint32_t& handed_over) {
    const DecodeWork& work = rows.item.work;
    Sums sums[kEach];
    int begin = work.begin;
    for (int split = 0; begin == work.begin || begin < work.end; ++split) {
      mbarrier_wait(shared_address(&shared_.merge_full), handed_over++ & 1);
      begin += work.split_tokens;
      const bool is_last = begin >= work.end;
      if (split > 0 || !is_last) add_split(rows, sums, split, is_last);
      if (is_last) write(rows);
      sync();
      if (thread_ == 0) mbarrier_arrive(shared_address(&shared_.merge_empty));
    }
  }

  // Of one vector. The sum of quads is not among them: its values lie where the item's partial
  // result goes, since registers have room for two.
  struct Sums {
    PartialRow pair, quad;
  };

  // Adds what the warps have handed over. What comes of the last split takes its place, as if one
  // warp had found all.
  __device__ void add_split(const ItemRows& rows, Sums (&sums)[kEach], int split, bool is_last) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = row_of(i), vector = vector_of(i);
      if (row >= rows.count) continue;
      auto& [pair, quad] = sums[i];
      pair.append(merge_warps(row, vector), split % 2 == 0);
      if (split % 2 == 0 && !is_last) continue;
      quad.append(pair, split % 4 < 2);
      if (split % 4 != 3 && !is_last) continue;
      float4* values = partial_values(rows.item.index, row, vector);
      if (split >= 4) {
        const float2 stats = shared_.totals[(split / 4 + 1) % 2][row];
        PartialRow before = {stats.x, stats.y, __ldcg(values)};
        before.add(quad);
        quad = before;
      }
      if (is_last) continue;
      *values = quad.values;
      if (vector == 0) shared_.totals[split / 4 % 2][row] = {quad.highest, quad.sum};
    }
    if (!is_last) return;
    sync();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = row_of(i), vector = vector_of(i);
      if (row >= rows.count) continue;
      reinterpret_cast<float4*>(values_)[merge_index<Layout>(row, vector)] = sums[i].quad.values;
      if (vector != 0) continue;
      shared_.stats[0][row] = {sums[i].quad.highest, sums[i].quad.sum};
      for (int warp = 1; warp < Config::kWarps; ++warp) shared_.stats[warp][row] = {-INFINITY, 0};
    }
    sync();
  }

  // Merges what is handed over and writes it.
  __device__ void write(const ItemRows& rows) {
    for (int i = thread_; i < rows.count * kVectors; i += kThreads) {
      const int row = i / kVectors, vector = i % kVectors;
      const PartialRow total = merge_warps(row, vector);
      if (rows.item.work.num_parts == 1) {
        write_out(rows, row, vector, total);
      } else {
        write_partial(rows.item.index, row, vector, total);
      }
    }
  }

  // Of this thread's vectors.
  __device__ int row_of(int i) const { return (thread_ + i * kThreads) / kVectors; }
  __device__ int vector_of(int i) const { return (thread_ + i * kThreads) % kVectors; }

  __device__ PartialRow merge_warps(int row, int vector) const {
    float2 stats[Config::kWarps];
    PartialRow total;
#pragma unroll
    for (int warp = 0; warp < Config::kWarps; ++warp) {
      stats[warp] = shared_.stats[warp][row];
      total.highest = fmaxf(total.highest, stats[warp].x);
    }
    const int at = merge_index<Layout>(row, vector);
#pragma unroll
    for (int warp = 0; warp < Config::kWarps; ++warp) {
      if (stats[warp].x == -INFINITY) continue;  // it had nothing to add and wrote no values
      const float weight = exp2_approx(stats[warp].x - total.highest);
      const float4 more =
          reinterpret_cast<const float4*>(values_ + warp * Config::kWarpValueBytes)[at];
      total.sum = __fmaf_rn(stats[warp].y, weight, total.sum);
      total.values.x = __fmaf_rn(more.x, weight, total.values.x);
      total.values.y = __fmaf_rn(more.y, weight, total.values.y);
      total.values.z = __fmaf_rn(more.z, weight, total.values.z);
      total.values.w = __fmaf_rn(more.w, weight, total.values.w);
    }
    return total;
  }

  // A zero has no sign: that would depend on what it is a sum of.
  __device__ static float scaled(float value, float factor) {
    return __fmaf_rn(value, factor, 0.0f);
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
        __floats2bfloat162_rn(scaled(total.values.x, factor), scaled(total.values.y, factor));
    const __nv_bfloat162 high =
        __floats2bfloat162_rn(scaled(total.values.z, factor), scaled(total.values.w, factor));
    const int64_t at = static_cast<int64_t>(token) * args_.num_heads + head;
    static_cast<uint2*>(args_.out)[at * kVectors + vector] = {
        *reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)};
    if (vector == 0 && args_.lse != nullptr) {
      args_.lse[static_cast<int64_t>(head) * args_.num_tokens + token] =
          total.sum > 0.0f ? kLn2 * (total.highest + log2f(total.sum)) : -INFINITY;
    }
  }

  __device__ float4* partial_values(int64_t index, int row, int vector) const {
    return reinterpret_cast<float4*>(launch_.workspace.partial_values) +
           (index * Config::kTileRows + row) * kVectors + vector;
  }
  __device__ float2* partial_stats(int64_t index, int row) const {
    return reinterpret_cast<float2*>(launch_.workspace.partial_stats) + index * Config::kTileRows +
           row;
  }

  __device__ void write_partial(int64_t index, int row, int vector, const PartialRow& total) {
    *partial_values(index, row, vector) = total.values;
    if (vector == 0) *partial_stats(index, row) = {total.highest, total.sum};
  }
  __device__ PartialRow read_partial(int64_t index, int row, int vector) const {
    const float2 stats = __ldcg(partial_stats(index, row));
    return {stats.x, stats.y, __ldcg(partial_values(index, row, vector))};
  }

  // Counts this part as ended. The counter wraps to 0 at the last, ready for the next launch.
  __device__ bool is_last_part(const DecodeItem& item) {
    if (thread_ == 0) {
      uint32_t* arrivals = launch_.workspace.arrivals + item.work.seq * launch_.heads.divisor() +
                           item.kv_head * launch_.row_tiles.divisor() + item.row_tile;
      const auto last = static_cast<uint32_t>(item.work.num_parts - 1);
      shared_.is_last_part = atomic_inc_release(arrivals, last) == last;
      if (shared_.is_last_part) fence_acquire_release();  // what other blocks wrote before
    }
    sync();
    return shared_.is_last_part != 0;
  }

  __device__ void merge_parts(const ItemRows& rows) {
    constexpr int kAtOnce = 8;  // loads in flight
    const DecodeWork& work = rows.item.work;
    const int stride = launch_.heads.divisor();
    const int first = rows.item.index - work.part * stride;
    for (int i = thread_; i < rows.count * kVectors; i += kThreads) {
      const int row = i / kVectors, vector = i % kVectors;
      PartialRow total;
      for (int part = 0; part < work.num_parts; part += kAtOnce) {
        const int count = work.num_parts - part;
        PartialRow more[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          more[j] = read_partial(first + (part + min(j, count - 1)) * stride, row, vector);
        }
        // Splits to pairs, pairs to quads, these in order.
#pragma unroll
        for (int step = 1; step <= 2; step *= 2) {
          if (work.part_splits * step > 2) continue;
#pragma unroll
          for (int j = 0; j < kAtOnce; j += 2 * step) {
            if (j + step < count) more[j].add(more[j + step]);
          }
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (j * work.part_splits % 4 == 0 && j < count) total.append(more[j], part + j == 0);
        }
      }
      write_out(rows, row, vector, total);
    }
  }

  const DecodeKernelArgs& launch_;
  const DecodeArgs& args_;
  char* values_;
  DecodeShared<Config>& shared_;
  int thread_ = static_cast<int>(threadIdx.x) - 32 * Config::kWarps;
};

}  // namespace octavo::backends::cuda
