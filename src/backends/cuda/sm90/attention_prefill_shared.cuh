// How the prefill kernel lays out its shared memory, and how its roles count through the rings of
// buffers there.
#pragma once

#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/sm90/attention_prefill_params.h"

namespace octavo::backends::cuda {

// Offsets in the block's shared memory, whose start is a multiple of 1024.
template <typename Config>
struct PrefillShared {
  static constexpr uint32_t kQ = 0;
  static constexpr uint32_t kK = kQ + Config::kQStages * Config::kQBytes;
  static constexpr uint32_t kV = kK + Config::kStages * Config::kTileBytes;
  static constexpr uint32_t kRawK = kV + Config::kStages * Config::kTileBytes;
  static constexpr uint32_t kRawV = kRawK + Config::kRawStages * Config::kRawBytes;
  // Barriers of 8 bytes, one a stage where there are stages.
  static constexpr uint32_t kQFull = kRawV + Config::kRawStages * Config::kRawBytes;
  static constexpr uint32_t kQEmpty = kQFull + 8 * Config::kQStages;
  static constexpr uint32_t kKFull = kQEmpty + 8 * Config::kQStages;
  static constexpr uint32_t kKEmpty = kKFull + 8 * Config::kStages;
  static constexpr uint32_t kVFull = kKEmpty + 8 * Config::kStages;
  static constexpr uint32_t kVEmpty = kVFull + 8 * Config::kStages;
  static constexpr uint32_t kItemFull = kVEmpty + 8 * Config::kStages;
  static constexpr uint32_t kItemEmpty = kItemFull + 8 * kItemSlots;
  static constexpr uint32_t kRawKFull = kItemEmpty + 8 * kItemSlots;
  static constexpr uint32_t kRawKEmpty = kRawKFull + 8 * Config::kRawStages;
  static constexpr uint32_t kRawVFull = kRawKEmpty + 8 * Config::kRawStages;
  static constexpr uint32_t kRawVEmpty = kRawVFull + 8 * Config::kRawStages;
  static constexpr uint32_t kBarriersEnd = kRawVEmpty + 8 * Config::kRawStages;
  static constexpr uint32_t kItems = (kBarriersEnd + 15) / 16 * 16;
  static constexpr uint32_t kBytes = kItems + kItemSlots * kItemBytes;
};

__device__ __forceinline__ int load_shared_word(uint32_t address) {
  int word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

__device__ __forceinline__ void store_shared_word(uint32_t address, int word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

// The use'th use of a ring of buffers: which buffer, and the parity of the barrier that says it is
// full. The producer waits for "empty" with the other parity, which passes at once in the first
// round.
template <int kStages>
__device__ __forceinline__ uint32_t ring_stage(uint32_t use) {
  return use % kStages;
}
template <int kStages>
__device__ __forceinline__ uint32_t ring_parity(uint32_t use) {
  return use / kStages & 1;
}

// Counts the warp out of a buffer.
__device__ __forceinline__ void release(uint32_t barrier) {
  if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}

}  // namespace octavo::backends::cuda
