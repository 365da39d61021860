// Blocks of a cluster (sm_90) as inline PTX: their ranks, their barrier, and stores to each other's
// shared memory that a barrier there counts. A block may not end while others may still store to
// it.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Every thread of the cluster arrives once and waits once; what was written before the one is seen
// after the other.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address, for cluster_store, of the same place in the shared memory of block `rank`.
__device__ inline uint32_t cluster_address(uint32_t shared_address, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address), "r"(rank));
  return address;
}

// Stores that the next cluster_wait() waits for.
__device__ inline void cluster_store(uint32_t cluster_to, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(cluster_to), "f"(value) : "memory");
}

// Stores 4 bytes, which the barrier of the same block counts as it counts those of copies.
__device__ inline void cluster_store(uint32_t cluster_to, float value, uint32_t cluster_barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
          cluster_to),
      "r"(__float_as_uint(value)), "r"(cluster_barrier)
      : "memory");
}

}  // namespace octavo::backends::cuda
