// What few_tokens_kernel.cuh does with matrices of 4-bit codes (tile/int4_tiles.h): a half tile's
// pieces lie behind one another, so that a step is two copies. A group's differences of code and
// zero point are bfloat16 in the products, exactly; its sum is then multiplied with the scale.
#pragma once

#include <cuda_fp16.h>

#include "backends/cuda/ptx/mma.cuh"
#include "backends/cuda/sm90/few_tokens_shared.cuh"

namespace octavo::backends::cuda::few_tokens {

template <int kGroup>
constexpr int kInt4PieceBytes = Int4Tiles{1, 1, kGroup}.piece_bytes();

// One half tile in a step: a piece for each warp.
template <int kGroup>
constexpr int kInt4HalfBytes = kStreamWarps * kInt4PieceBytes<kGroup>;

// By two warps, each a half tile.
template <typename Shared>
__device__ void copy_int4(Shared& shared, uint32_t ring_memory, const ProductCall& call,
                          const StreamPlan& plan, const Slice& slice) {
  constexpr int kHalfBytes = kInt4HalfBytes<Shared::kGroup>;
  const int half = (static_cast<int>(threadIdx.x) - kMultipliers - kFinishers) / 32;
  if (half >= 2 || threadIdx.x % 32 != 0) return;
  RingPlace place;
  for (int t = slice.cluster_id; t < call.num_tiles; t += slice.num_clusters) {
    const std::byte* from = Tile(call, t).half_tile(half, call.row_bytes);
    for (int step = 0; step < slice.steps; ++step) {
      const int begin = (slice.first_step + step) * kHalfBytes;
      const int bytes = min(kHalfBytes, static_cast<int>(call.row_bytes) - begin);
      const uint32_t full = shared_address(&shared.full[place.slot]);
      mbarrier_wait(shared_address(&shared.empty[place.slot]), place.parity ^ 1);
      mbarrier_arrive_expect(full, bytes);
      bulk_copy(ring_memory + place.slot * Shared::kStepBytes + half * kHalfBytes, from + begin,
                bytes, full);
      place.advance(plan.ring);
    }
  }
}

// A lane's share of a row of a piece: eight codes of every 32 columns, the words of all groups.
template <int kGroup>
struct Int4Row {
  static constexpr int kWords = kInt4Columns / kGroup;

  uint32_t codes[4];
  uint32_t words[kWords];

  __device__ explicit Int4Row(const char* piece) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint4 four = *reinterpret_cast<const uint4*>(piece + 16 * lane);
    codes[0] = four.x;
    codes[1] = four.y;
    codes[2] = four.z;
    codes[3] = four.w;
    const char* at = piece + kInt4Codes + lane / 4 * 4 * kWords;
    if constexpr (kWords == 1) {
      words[0] = *reinterpret_cast<const uint32_t*>(at);
    } else if constexpr (kWords == 2) {
      const uint2 two = *reinterpret_cast<const uint2*>(at);
      words[0] = two.x;
      words[1] = two.y;
    } else {
      const uint4 all = *reinterpret_cast<const uint4*>(at);
      words[0] = all.x;
      words[1] = all.y;
      words[2] = all.z;
      words[3] = all.w;
    }
  }
  __device__ float scale(int group) const {
    return __half2float(__ushort_as_half(static_cast<uint16_t>(words[group])));
  }
  // Eight differences in bfloat16, two in a register. With a code in the lowest of its seven bits
  // of fraction, 0x4300 is 128 + code; the zero point is 128 + itself.
  __device__ void differences(int i, uint32_t (&pairs)[4]) const {
    const uint32_t word = words[i / (kGroup / 32)];
    const uint32_t zeros = __byte_perm(word, word, 0x3232);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const uint32_t pair = (codes[i] >> 4 * p & 0x000F000F) | 0x43004300;
      const __nv_bfloat162 difference = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&pair),
                                                *reinterpret_cast<const __nv_bfloat162*>(&zeros));
      pairs[p] = *reinterpret_cast<const uint32_t*>(&difference);
    }
  }
};

// One warp's columns of a step. A group's products add to two sums in turn, for they would wait for
// each other; one where there are only two.
template <int kGroup, int kBlocks>
__device__ void multiply_int4(float (&sums)[kBlocks][4], const char* step, int warp,
                              const char* input, const int (&token_bytes)[kBlocks]) {
  constexpr int kPieceBytes = kInt4PieceBytes<kGroup>;
  constexpr int kGroupSteps = kGroup / 32;
  constexpr int kChains = kGroupSteps > 1 ? 2 : 1;
  const int lane_byte = warp * 2 * kInt4Columns + static_cast<int>(threadIdx.x) % 4 * 16;
  const Int4Row<kGroup> low(step + warp * kPieceBytes);
  const Int4Row<kGroup> high(step + kInt4HalfBytes<kGroup> + warp * kPieceBytes);
#pragma unroll
  for (int group = 0; group < kInt4Columns / kGroup; ++group) {
    float parts[kChains][kBlocks][4] = {};
#pragma unroll
    for (int s = 0; s < kGroupSteps; ++s) {
      const int i = group * kGroupSteps + s;
      uint32_t a[4], b[4];
      low.differences(i, a);
      high.differences(i, b);
      const uint32_t first[4] = {a[0], b[0], a[1], b[1]};
      const uint32_t second[4] = {a[2], b[2], a[3], b[3]};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const uint4 x =
            *reinterpret_cast<const uint4*>(input + token_bytes[block] + lane_byte + 64 * i);
        mma_m16n8k16_bf16(parts[0][block], first, x.x, x.y);
        mma_m16n8k16_bf16(parts[kChains - 1][block], second, x.z, x.w);
      }
    }
    const float scales[2] = {low.scale(group), high.scale(group)};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float part = parts[0][block][e];
        if constexpr (kChains > 1) part += parts[1][block][e];
        sums[block][e] = fmaf(part, scales[e / 2], sums[block][e]);
      }
    }
  }
}

}  // namespace octavo::backends::cuda::few_tokens
