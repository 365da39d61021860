// The end of a tile in few_tokens_wgmma_kernel.cuh: sums of a cluster's blocks are added up, those
// of gate and up brought together, and results stored. A thread's results lie in two rows, 8 apart,
// of the tile: what belongs to a row is looked up once, and nothing waits for anything between
// results, or an end takes longer than the ring lasts (it took 12 us of 64 tokens with a lookup and
// a load for each, on an H200).
#pragma once

#include <type_traits>

#include "backends/cuda/sm90/few_tokens_wgmma_shared.cuh"
#include "backends/cuda/tile/activate.cuh"

namespace octavo::backends::cuda::few_tokens_wgmma {

// A thread's two rows of a matrix.
struct ThreadRows {
  int row;  // and row + 8
  bool valid[2];
  float bias[2];
  int64_t out_stride;

  __device__ ThreadRows(const ProductMatrix& matrix, int of_row)
      : row(of_row), out_stride(matrix.out_stride) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      valid[half] = row + 8 * half < matrix.rows;
      bias[half] = matrix.bias != nullptr && valid[half] ? matrix.bias[row + 8 * half] : 0.0f;
    }
  }
};

// Stores the i-th of kCount values, i counting as the accumulators of wgmma do from first_token on.
template <int kCount, typename Out, typename Value>
__device__ __forceinline__ void store_values(Out* out, const ProductCall& call,
                                             const ThreadRows& rows, int first_token,
                                             const Value& value) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int limit = call.num_tokens - first_token;
  out += first_token * rows.out_stride + rows.row;
  const auto place = [&](int i) {
    return out + accumulator_column(thread, i) * rows.out_stride + i / 2 % 2 * 8;
  };
  const auto has_place = [&](int i) {
    return rows.valid[i / 2 % 2] && accumulator_column(thread, i) < limit;
  };
  if constexpr (std::is_same_v<Out, float>) {
    if (call.accumulate) {  // kEach once: nothing depends on an order, and nobody waits
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (has_place(i)) atomicAdd(place(i), value(i));
      }
      return;
    }
  }
  float before[kCount] = {};
  if (call.accumulate) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (has_place(i)) before[i] = load<1>(place(i)).v[0];
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (has_place(i)) store<1>(place(i), {value(i) + before[i]});
  }
}

template <int kCount, typename Value>
__device__ __forceinline__ void store_values(const ProductMatrix& matrix, const ProductCall& call,
                                             const ThreadRows& rows, int first_token,
                                             const Value& value) {
  if (call.out_is_float) {
    store_values<kCount>(static_cast<float*>(matrix.out), call, rows, first_token, value);
  } else {
    store_values<kCount>(static_cast<__nv_bfloat16*>(matrix.out), call, rows, first_token, value);
  }
}

// Where the thread's first sum lies in the tile.
__device__ inline int row_in_tile() {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / 128 * kWgmmaRows + accumulator_row(thread % 128, 0);
}

template <typename Config>
__device__ __forceinline__ void finish_alone(const Params& params, int t,
                                             const typename Config::Sums& sums) {
  const typename Config::Tile tile(params.call, t);
  const ThreadRows rows(*tile.matrix, tile.first_row + row_in_tile());
  store_values<Config::kSums>(*tile.matrix, params.call, rows, 0,
                              [&](int i) { return sums[i] + rows.bias[i / 2 % 2]; });
}

// The upper half of the threads has the products of up where the lower has those of gate: each
// finishes half of the tokens.
template <typename Config>
__device__ __forceinline__ void finish_gated(Shared& shared, const Params& params, int t,
                                             const typename Config::Sums& sums) {
  constexpr int kHalf = Config::kSums / 2;
  const ProductCall& call = params.call;
  const typename Config::Tile tile(call, t);
  const int thread = static_cast<int>(threadIdx.x);
  const bool upper = thread >= Config::kMultipliers / 2;
  const int partner = thread + (upper ? -1 : 1) * Config::kMultipliers / 2;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    shared.exchange[i * Config::kMultipliers + thread] = upper ? sums[i] : sums[i + kHalf];
  }
  const int row = tile.first_row + row_in_tile() - (upper ? Config::kRows / 2 : 0);
  const ThreadRows gate_rows(call.matrices[0], row), up_rows(call.matrices[1], row);
  named_barrier_sync(1, Config::kMultipliers);
  float values[kHalf];
  // Rounded as they are where both are stored first.
  const auto round = [](float x) { return __bfloat162float(__float2bfloat16_rn(x)); };
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float other = shared.exchange[i * Config::kMultipliers + partner];
    const float own = upper ? sums[i + kHalf] : sums[i];
    const float gate = round((upper ? other : own) + gate_rows.bias[i / 2 % 2]);
    values[i] =
        activate(gate, call.activation) * round((upper ? own : other) + up_rows.bias[i / 2 % 2]);
  }
  named_barrier_sync(1, Config::kMultipliers);  // the next tile's may come
  store_values<kHalf>(call.matrices[0], call, gate_rows, upper ? Config::kTokens / 2 : 0,
                      [&](int i) { return values[i]; });
}

// Each block of the cluster finishes half of the tokens: both send it their sums for these, which
// are added in the order of the blocks.
template <typename Config>
__device__ __forceinline__ void finish_together(Shared& shared, const Params& params, int t,
                                                const Slice& slice, RingPlace& turn,
                                                const typename Config::Sums& sums) {
  constexpr int kEach = Config::kSums / kWgmmaMaxCluster;
  const int thread = static_cast<int>(threadIdx.x);
  float* const received = shared.exchange + turn.slot * Config::kTileSums;
  const uint32_t barrier = shared_address(&shared.gathered[turn.slot]);
  if (thread == 0) mbarrier_arrive_expect(barrier, Config::kTileSums * sizeof(float));
#pragma unroll
  for (int i = 0; i < Config::kSums; ++i) {
    const int place = (slice.rank * kEach + i % kEach) * Config::kMultipliers + thread;
    cluster_store(cluster_address(shared_address(received + place), i / kEach), sums[i],
                  cluster_address(barrier, i / kEach));
  }
  const typename Config::Tile tile(params.call, t);
  const ThreadRows rows(*tile.matrix, tile.first_row + row_in_tile());
  mbarrier_wait(barrier, turn.parity);
  float values[kEach] = {};
#pragma unroll
  for (int r = 0; r < kWgmmaMaxCluster; ++r) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      values[i] += received[(r * kEach + i) * Config::kMultipliers + thread];
    }
  }
  store_values<kEach>(*tile.matrix, params.call, rows, slice.rank * Config::kTokens / 2,
                      [&](int i) { return values[i] + rows.bias[i / 2 % 2]; });
  // Who has all that was sent for the next tile then knows that this one's may be overwritten.
  named_barrier_sync(1, Config::kMultipliers);
  turn.advance(2);
}

}  // namespace octavo::backends::cuda::few_tokens_wgmma
