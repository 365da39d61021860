// Hopper's copy engine for tensors (TMA) as inline PTX: one thread asks for a box of a tensor that
// a tensor map describes (tensor_map.h), and a barrier in shared memory (mbarrier.cuh) counts the
// bytes that arrive. Coordinates are in elements, innermost dimension first; what lies outside the
// tensor arrives as zeros and counts in full.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace octavo::backends::cuda {

// What the L2 cache should do with the lines of a copy.
__device__ inline uint64_t l2_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ inline uint64_t l2_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Fetches the map itself ahead of its first use.
__device__ inline void tma_prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ inline void tma_load_4d(uint32_t shared, const CUtensorMap& map, uint32_t barrier,
                                   int c0, int c1, int c2, int c3, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

}  // namespace octavo::backends::cuda
