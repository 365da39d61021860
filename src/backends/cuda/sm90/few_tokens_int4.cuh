// What few_tokens_kernel.cuh does with matrices of 4-bit codes (tile/int4_tiles.h): a half tile's
// pieces lie behind one another, so that a step is two copies. In the products is 16 + code, which
// a shift and a mask make bfloat16; then of a group's sum that of its inputs is taken away, as
// often as 16 + zero point says, and what is left multiplied with the scale.
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

// A lane's share of a row of a piece: eight codes of every 32 columns; the groups' words stay where
// they are.
template <int kGroup>
struct Int4Row {
  uint32_t codes[4];
  const uint32_t* words;

  __device__ explicit Int4Row(const char* piece) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint4 four = *reinterpret_cast<const uint4*>(piece + 16 * lane);
    codes[0] = four.x;
    codes[1] = four.y;
    codes[2] = four.z;
    codes[3] = four.w;
    words =
        reinterpret_cast<const uint32_t*>(piece + kInt4Codes) + lane / 4 * (kInt4Columns / kGroup);
  }
  // 16 + code of eight, two in a register: 0x4180 is 16, and its fraction's upper bits are ones.
  __device__ void codes_of(int i, uint32_t (&pairs)[4]) const {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      pairs[p] = (__funnelshift_r(codes[i], codes[i], 4 * p) & 0x00780078) | 0x41804180;
    }
  }
};

struct Int4Word {
  float scale, zero;  // the latter with 16 more

  __device__ explicit Int4Word(uint32_t word) {
    scale = __half2float(__ushort_as_half(static_cast<uint16_t>(word)));
    zero = __uint_as_float(word & 0xFFFF0000);
  }
};

// The lane's input for eight codes of a row.
__device__ inline uint4 int4_input(const char* input, int token_bytes, int piece, int i) {
  const int column = piece * kInt4Columns + 32 * i + static_cast<int>(threadIdx.x) % 4 * 8;
  return *reinterpret_cast<const uint4*>(input + token_bytes + 2 * column);
}

// Where the sums of a group begin for the lane's two tokens of a block.
template <int kGroup, int kBlocks>
__device__ int input_sum_at(int piece, int group, int block) {
  constexpr int kWords = kInt4Columns / kGroup;
  return ((piece * kWords + group) * kBlocks + block) * kStreamTokens +
         static_cast<int>(threadIdx.x) % 4 * 2;
}

// Sums of the input's groups, by products with ones, so that lanes get them as they get products.
template <int kGroup, int kBlocks>
__device__ void sum_input(float* to, const char* input, const int (&token_bytes)[kBlocks],
                          int steps) {
  constexpr uint32_t kOnes[4] = {0x3F803F80, 0x3F803F80, 0x3F803F80, 0x3F803F80};
  constexpr int kGroupSteps = kGroup / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int piece = warp; piece < steps * kStreamWarps; piece += 2 * kStreamWarps) {
#pragma unroll
    for (int group = 0; group < kInt4Columns / kGroup; ++group) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        float sums[4] = {};
#pragma unroll
        for (int i = group * kGroupSteps; i < (group + 1) * kGroupSteps; ++i) {
          const uint4 x = int4_input(input, token_bytes[block], piece, i);
          mma_m16n8k16_bf16(sums, kOnes, x.x, x.y);
          mma_m16n8k16_bf16(sums, kOnes, x.z, x.w);
        }
        if (threadIdx.x % 32 < 4) {
          *reinterpret_cast<float2*>(to + input_sum_at<kGroup, kBlocks>(piece, group, block)) = {
              sums[0], sums[1]};
        }
      }
    }
  }
}

// One warp's columns of a step, the step-th of the slice. Of a single token block a group's
// products add to two sums in turn, for they would wait for each other.
template <int kGroup, int kBlocks>
__device__ void multiply_int4(float (&sums)[kBlocks][4], const char* weights, int warp, int step,
                              const char* input, const int (&token_bytes)[kBlocks],
                              const float* input_sums) {
  constexpr int kGroupSteps = kGroup / 32;
  constexpr int kChains = kGroupSteps > 1 && kBlocks == 1 ? 2 : 1;
  const int piece = step * kStreamWarps + warp;
  const Int4Row<kGroup> low(weights + warp * kInt4PieceBytes<kGroup>);
  const Int4Row<kGroup> high(weights + kInt4HalfBytes<kGroup> + warp * kInt4PieceBytes<kGroup>);
#pragma unroll
  for (int group = 0; group < kInt4Columns / kGroup; ++group) {
    float parts[kChains][kBlocks][4] = {};
#pragma unroll
    for (int i = group * kGroupSteps; i < (group + 1) * kGroupSteps; ++i) {
      uint32_t a[4], b[4];
      low.codes_of(i, a);
      high.codes_of(i, b);
      const uint32_t first[4] = {a[0], b[0], a[1], b[1]};
      const uint32_t second[4] = {a[2], b[2], a[3], b[3]};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const uint4 x = int4_input(input, token_bytes[block], piece, i);
        mma_m16n8k16_bf16(parts[0][block], first, x.x, x.y);
        mma_m16n8k16_bf16(parts[kChains - 1][block], second, x.z, x.w);
      }
    }
    const Int4Word words[2] = {Int4Word(low.words[group]), Int4Word(high.words[group])};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const float2 two = *reinterpret_cast<const float2*>(
          input_sums + input_sum_at<kGroup, kBlocks>(piece, group, block));
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
