// What the prefill kernel is compiled for (PrefillConfig) and what a launch tells it
// (TmaPrefillParams).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "backends/cuda/tile/prefill_params.h"

namespace octavo::backends::cuda {

// kRawStages: buffers for tiles of E4M3 each of K and V; 0: K and V are bfloat16.
template <int kHeadDim_, int kMmaGroups_, int kBlockN_, int kStages_, int kQStages_, bool kSoftcap_,
          int kRawStages_ = 0>
struct PrefillConfig {
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kMmaGroups = kMmaGroups_;  // warpgroups that compute, 64 rows each
  static constexpr int kBlockM = 64 * kMmaGroups;
  static constexpr int kBlockN = kBlockN_;  // keys of a block
  static constexpr int kStages = kStages_;  // of K and V each
  static constexpr int kQStages = kQStages_;
  static constexpr bool kSoftcap = kSoftcap_;
  static constexpr int kRawStages = kRawStages_;
  static constexpr bool kFp8 = kRawStages > 0;  // arithmetic is then in half precision

  static constexpr int kPanels = kHeadDim / kPanelColumns;
  static constexpr int kQBytes = kBlockM * kHeadDim * 2;
  static constexpr int kTileBytes = kBlockN * kHeadDim * 2;
  static constexpr int kRawBytes = kBlockN * kHeadDim;
  // Warps that make half precision of E4M3, half of them for K: in a group of their own, but with
  // hd256, whose products need more registers than a thread of four groups starts with, two of the
  // producer's.
  static constexpr bool kConvertGroup = kFp8 && kHeadDim < 256;
  static constexpr int kConvertWarps = kConvertGroup ? 4 : kFp8 ? 2 : 0;
  static constexpr int kThreads = 128 * (kMmaGroups + (kConvertGroup ? 2 : 1));
  // The register file has 512 for each of 128 threads. A product may be in flight on O, S and P:
  // (kHeadDim + kBlockN + kBlockN / 2) / 2 registers.
  static constexpr int kProducerRegisters = kThreads == 384 ? 40 : 32;
  static constexpr int kConvertRegisters = 40;
  static constexpr int kMmaRegisters = kThreads == 384 ? 232 : kConvertGroup ? 216 : 160;
  // Weights are made before a block's maxima are known, which takes registers to keep the scores.
  static constexpr bool kGuessesMaxima = !(kFp8 && kHeadDim == 128);
};

// The kernels there are (one of each in attention_prefill_hd*.cu). What bounds them is shared
// memory, 227 KiB for Q, K and V, and registers. Measured on an H200: with hd128, 176 keys a block
// are 2 % faster than 160 with a second buffer for Q; with hd64, a third stage costs 7 %.
template <bool kSoftcap>
using PrefillHd64 = PrefillConfig<64, kSoftcap ? 2 : 3, 128, 2, kSoftcap ? 2 : 1, kSoftcap>;
using PrefillHd64Short = PrefillConfig<64, 2, 128, 2, 2, false>;  // for short prompts
template <bool kSoftcap>
using PrefillHd128 = PrefillConfig<128, 2, 128, 2, 2, kSoftcap>;
using PrefillHd128Full = PrefillConfig<128, 2, 176, 2, 1, false>;  // pages need not divide it
template <bool kSoftcap>
using PrefillHd256 = PrefillConfig<256, 2, 64, 2, 1, kSoftcap>;
using PrefillHd256Contiguous = PrefillConfig<256, 2, 80, 2, 1, false>;
template <bool kSoftcap>
using PrefillHd64Fp8 = PrefillConfig<64, 2, 128, 2, 1, kSoftcap, 2>;
template <bool kSoftcap>
using PrefillHd128Fp8 = PrefillConfig<128, 2, 128, 2, 1, kSoftcap, 2>;
template <bool kSoftcap>
using PrefillHd256Fp8 = PrefillConfig<256, 2, 64, 2, 1, kSoftcap, 1>;

// Named barriers of the block; 0 is __syncthreads.
inline constexpr int kTurnBarrier = 1;  // one a warpgroup: its turn to issue products
inline constexpr int kTailBarrier = 4;  // one a warpgroup: it has cleared the tail of V

// What the producer tells the others of a tile: the words of a WorkItem and the unit of heads.
inline constexpr uint32_t kItemSlots = 2;
inline constexpr uint32_t kItemBytes = 48;
inline constexpr int kQRowWord = 0;
inline constexpr int kNumTokensWord = 1;
inline constexpr int kPositionWord = 2;
inline constexpr int kNumKeysWord = 3;
inline constexpr int kKvRowWord = 4;
inline constexpr int kBeginWord = 5;
inline constexpr int kEndWord = 6;
inline constexpr int kMaskedWord = 7;
inline constexpr int kUnitWord = 8;
inline constexpr int kNoMoreWork = -1;

struct PrefillMaps {
  CUtensorMap q;  // [tokens, units, pack, head_dim]
  CUtensorMap k;  // [blocks, kv heads, slots, head_dim]; contiguous: one block of all tokens
  CUtensorMap v;
};

struct TmaPrefillParams : PrefillParams {
  int box_rows;  // keys that one box brings
  int row_mask;  // of a key's index: its row within its block of the cache; -1: contiguous
};

// Runs one kernel of `num_blocks` blocks.
template <typename Config>
cudaError_t launch_prefill(const TmaPrefillParams& params, const PrefillMaps& maps, int num_blocks,
                           cudaStream_t stream);

}  // namespace octavo::backends::cuda
