// The kernel of few_tokens_wgmma.h. A block takes tiles of 64 or 128 rows of the matrix: one
// warp has panels of it copied (TMA) into a ring, as far ahead as the ring allows and across the
// ends of tiles, another the same columns of the input; one or two warpgroups multiply (wgmma, rows
// of the matrix as rows of the product, tokens as its columns) and finish tiles. Where the blocks
// of a cluster share the columns (tile/wgmma_plan.h), they hand each other sums.
#pragma once

#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/ptx/tma.cuh"
#include "backends/cuda/ptx/wgmma.cuh"
#include "backends/cuda/sm90/few_tokens_wgmma_finish.cuh"

namespace octavo::backends::cuda::few_tokens_wgmma {

// Calls copy(to, column, full) for every panel of every step of every tile, once its place is
// free: in shared memory, from where of a row, and the barrier that counts `step_bytes`.
template <typename Config, typename Copy>
__device__ void copy_steps(Shared& shared, uint32_t ring_memory, const Params& params,
                           const Slice& slice, int panel_bytes, const Copy& copy) {
  RingPlace place;
  for (int t = slice.cluster_id; t < params.call.num_tiles; t += slice.num_clusters) {
    const typename Config::Tile tile(params.call, t);
    for (int step = 0; step < slice.steps; ++step) {
      const uint32_t full = shared_address(&shared.full[place.slot]);
      mbarrier_wait(shared_address(&shared.empty[place.slot]), place.parity ^ 1);
      mbarrier_arrive_expect(full, Config::kPanels * panel_bytes);
      const int panel = (slice.first_step + step) * Config::kPanels;
#pragma unroll
      for (int p = 0; p < Config::kPanels; ++p) {
        copy(tile, ring_memory + place.slot * Config::kStepBytes + p * panel_bytes,
             (panel + p) * kPanelColumns, full);
      }
      place.advance(params.ring);
    }
  }
}

// By one thread. Matrices do not depend on the kernel ahead: nobody waits for its end here.
template <typename Config>
__device__ void copy_weights(Shared& shared, uint32_t ring_memory, const Params& params,
                             const Slice& slice) {
  const uint64_t policy = l2_evict_first();
  copy_steps<Config>(
      shared, ring_memory, params, slice, Config::kWeightPanelBytes,
      [&](const typename Config::Tile& tile, uint32_t to, int column, uint32_t full) {
        tma_load_4d(to, params.matrices[tile.matrix - params.call.matrices], full, column,
                    tile.first_row, 0, 0, policy);
        if (!params.call.gated) return;
        tma_load_4d(to + Config::kWeightPanelBytes / 2, params.matrices[1], full, column,
                    tile.first_row, 0, 0, policy);
      });
}

// By another.
template <typename Config>
__device__ void copy_input(Shared& shared, uint32_t ring_memory, const Params& params,
                           const Slice& slice) {
  const uint64_t policy = l2_evict_last();
  pdl_wait();
  copy_steps<Config>(shared, ring_memory + Config::kWeightBytes, params, slice,
                     Config::kInputPanelBytes,
                     [&](const typename Config::Tile&, uint32_t to, int column, uint32_t full) {
                       tma_load_4d(to, params.input, full, column, 0, 0, 0, policy);
                     });
}

// The sums of a tile over the block's columns; a step's place is given back under the products of
// the next one.
template <typename Config>
__device__ __forceinline__ void multiply_tile(typename Config::Sums& sums, Shared& shared,
                                              uint32_t ring_memory, const Params& params,
                                              const Slice& slice, RingPlace& place) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // The same in all lanes; the shuffle tells the compiler.
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  const auto release = [&](int slot) {
    if (lane == 0) mbarrier_arrive(shared_address(&shared.empty[slot]));
  };
  int before = 0;
  for (int step = 0; step < slice.steps; ++step) {
    mbarrier_wait(shared_address(&shared.full[place.slot]), place.parity);
    const uint32_t weights = ring_memory + place.slot * Config::kStepBytes;
    const uint64_t a = k_major_descriptor(weights + group * kWgmmaRows * kPanelRowBytes);
    const uint64_t b = k_major_descriptor(weights + Config::kWeightBytes);
    wgmma_fence();
#pragma unroll
    for (int p = 0; p < Config::kPanels; ++p) {
#pragma unroll
      for (int k = 0; k < kPanelColumns / 16; ++k) {
        wgmma_qk_bf16(sums, advance(a, p * Config::kWeightPanelBytes + k_major_step(0, k)),
                      advance(b, p * Config::kInputPanelBytes + k_major_step(0, k)),
                      step + p + k > 0);
      }
    }
    wgmma_commit();
    if (step > 0) {
      wgmma_wait<1>();
      release(before);
    }
    before = place.slot;
    place.advance(params.ring);
  }
  wgmma_wait<0>();
  release(before);
}

template <typename Config>
__device__ void multiply(Shared& shared, uint32_t ring_memory, const Params& params,
                         const Slice& slice) {
  RingPlace place, turn;
  pdl_wait();
  if (params.cluster > 1) cluster_wait();
  for (int t = slice.cluster_id; t < params.call.num_tiles; t += slice.num_clusters) {
    typename Config::Sums sums;
    multiply_tile<Config>(sums, shared, ring_memory, params, slice, place);
    if (params.call.gated) {
      finish_gated<Config>(shared, params, t, sums);
    } else if (params.cluster == 1) {
      finish_alone<Config>(params, t, sums);
    } else if constexpr (Config::kGroups == 1) {
      finish_together<Config>(shared, params, t, slice, turn, sums);
    }
  }
}

template <typename Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    few_tokens_wgmma_kernel(const __grid_constant__ Params params) {
  extern __shared__ char memory[];
  const uint32_t begin = shared_address(memory);
  const uint32_t ring_memory =
      (begin + kSwizzleAtomBytes - 1) / kSwizzleAtomBytes * kSwizzleAtomBytes;
  auto& shared =
      *reinterpret_cast<Shared*>(memory + (ring_memory - begin) + params.ring * Config::kStepBytes);
  pdl_launch_next();
  if (threadIdx.x == 0) {
    for (int i = 0; i < params.ring; ++i) {
      mbarrier_init(shared_address(&shared.full[i]), 2);
      mbarrier_init(shared_address(&shared.empty[i]), Config::kMultipliers / 32);
    }
    for (int i = 0; i < 2; ++i) mbarrier_init(shared_address(&shared.gathered[i]), 1);
    mbarrier_fence_init();
  }
  __syncthreads();
  if (params.cluster > 1) cluster_arrive();
  const Slice slice(params);
  if (threadIdx.x < Config::kMultipliers) {
    return multiply<Config>(shared, ring_memory, params, slice);
  }
  if (threadIdx.x == Config::kMultipliers) copy_weights<Config>(shared, ring_memory, params, slice);
  if (threadIdx.x == Config::kMultipliers + 32) {
    copy_input<Config>(shared, ring_memory, params, slice);
  }
  __syncwarp();
  if (params.cluster > 1) cluster_wait();  // every thread once
}

}  // namespace octavo::backends::cuda::few_tokens_wgmma
