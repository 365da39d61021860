// What few_tokens_kernel.cuh does with matrices of 4-bit codes (tile/int4_tiles.h): a half tile's
// pieces lie behind one another, so that a step is two copies. In the products is 16 + code, which
// a shift and a mask make bfloat16; then of a group's sum that of its inputs is taken away, as
// often as 16 + zero point says, and what is left multiplied with the scale.
#pragma once

#include <cuda_fp16.h>

#include "backends/cuda/ptx/and_or.cuh"
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
  const int half = (static_cast<int>(threadIdx.x) - Shared::kMultipliers - kFinishers) / 32;
  if (threadIdx.x % 32 != 0) return;
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

// 16 + code of the eight codes of a word, two in a register: 0x4180 is 16, and the upper bits of
// its fraction are ones.
__device__ inline void int4_pairs(uint32_t (&pairs)[4], uint32_t codes) {
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    pairs[p] = and_or<0x00780078, 0x41804180>(__funnelshift_r(codes, codes, 4 * p));
  }
}

// A group's word (tile/int4_tiles.h).
struct Int4Word {
  float scale, zero;  // the latter with 16 more

  __device__ explicit Int4Word(uint32_t word) {
    scale = __half2float(__ushort_as_half(static_cast<uint16_t>(word)));
    zero = __uint_as_float(word & 0xFFFF0000);
  }
};

// Where a lane finds what is its own, in bytes.
template <int kGroup, int kBlocks>
struct Int4Lane {
  static constexpr int kWords = kInt4Columns / kGroup;
  static constexpr int kSumBytes = 4 * kWords * kBlocks * kStreamTokens;  // of the sums of a piece

  int codes, words;    // of a half tile in a step
  int input[kBlocks];  // of each block's token, from the beginning of a step
  int sums;            // of sums of the input, from the beginning of a step

  __device__ Int4Lane(int warp, const int (&token_bytes)[kBlocks]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    codes = warp * kInt4PieceBytes<kGroup> + 16 * lane;
    words = warp * kInt4PieceBytes<kGroup> + kInt4Codes + lane / 4 * 4 * kWords;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      input[b] = token_bytes[b] + warp * 2 * kInt4Columns + lane % 4 * 16;
    }
    sums = warp * kSumBytes + lane % 4 * 8;
  }
};

// Sums of the input's groups, by products with ones, so that lanes get them as they get products.
template <int kGroup, int kBlocks>
__device__ void sum_input(char* to, const char* input, const Int4Lane<kGroup, kBlocks>& lane,
                          int first_step, int steps, int stride) {
  constexpr uint32_t kOnes[4] = {0x3F803F80, 0x3F803F80, 0x3F803F80, 0x3F803F80};
  constexpr int kGroupSteps = kGroup / 32;
  for (int step = first_step; step < steps; step += stride) {
    const char* x_at = input + step * 2 * kStreamWarps * kInt4Columns;
    char* sums_at = to + step * kStreamWarps * lane.kSumBytes + lane.sums;
#pragma unroll
    for (int group = 0; group < lane.kWords; ++group) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        float sums[4] = {};
#pragma unroll
        for (int i = group * kGroupSteps; i < (group + 1) * kGroupSteps; ++i) {
          const uint4 x = *reinterpret_cast<const uint4*>(x_at + lane.input[b] + 64 * i);
          mma_m16n8k16_bf16(sums, kOnes, x.x, x.y);
          mma_m16n8k16_bf16(sums, kOnes, x.z, x.w);
        }
        if (threadIdx.x % 32 < 4) {
          float2* sum = reinterpret_cast<float2*>(sums_at + 32 * (group * kBlocks + b));
          *sum = {sums[0], sums[1]};
        }
      }
    }
  }
}

// One warp's columns of a step: its `weights`, and what lies in shared memory from the beginning of
// the step on of the input and its sums. Of a single token block a group's products add to two sums
// in turn, for they would wait for each other.
template <int kGroup, int kBlocks>
__device__ void multiply_int4(float (&sums)[kBlocks][4], const char* weights, const char* input,
                              const char* input_sums, const Int4Lane<kGroup, kBlocks>& lane) {
  constexpr int kGroupSteps = kGroup / 32;
  constexpr int kChains = kGroupSteps > 1 && kBlocks == 1 ? 2 : 1;
  const uint4 rows[2] = {
      *reinterpret_cast<const uint4*>(weights + lane.codes),
      *reinterpret_cast<const uint4*>(weights + kInt4HalfBytes<kGroup> + lane.codes)};
  const uint32_t low[4] = {rows[0].x, rows[0].y, rows[0].z, rows[0].w};
  const uint32_t high[4] = {rows[1].x, rows[1].y, rows[1].z, rows[1].w};
#pragma unroll
  for (int group = 0; group < lane.kWords; ++group) {
    float parts[kChains][kBlocks][4] = {};
#pragma unroll
    for (int i = group * kGroupSteps; i < (group + 1) * kGroupSteps; ++i) {
      uint32_t a[4], b[4];
      int4_pairs(a, low[i]);
      int4_pairs(b, high[i]);
      const uint32_t first[4] = {a[0], b[0], a[1], b[1]};
      const uint32_t second[4] = {a[2], b[2], a[3], b[3]};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const uint4 x = *reinterpret_cast<const uint4*>(input + lane.input[block] + 64 * i);
        mma_m16n8k16_bf16(parts[0][block], first, x.x, x.y);
        mma_m16n8k16_bf16(parts[kChains - 1][block], second, x.z, x.w);
      }
    }
    const char* at = weights + lane.words + 4 * group;
    const Int4Word words[2] = {
        Int4Word(*reinterpret_cast<const uint32_t*>(at)),
        Int4Word(*reinterpret_cast<const uint32_t*>(at + kInt4HalfBytes<kGroup>))};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const float2 two =
          *reinterpret_cast<const float2*>(input_sums + lane.sums + 32 * (group * kBlocks + block));
      const float of_input[2] = {two.x, two.y};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float part = parts[0][block][e];
        if constexpr (kChains > 1) part += parts[1][block][e];
        part = fmaf(-words[e / 2].zero, of_input[e % 2], part);
        sums[block][e] = fmaf(part, words[e / 2].scale, sums[block][e]);
      }
    }
  }
}

}  // namespace octavo::backends::cuda::few_tokens
