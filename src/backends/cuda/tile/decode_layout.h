// Where a warp of the decode kernel finds its values: which token is which row of the score matrix,
// which value of a head which row or column of a matrix operand. Plain C++, so that tests
// on a CPU can run the same lines.
//
// A tile is four slabs of consecutive tokens, each copied as it lies in the cache: rows of a
// power of two bytes, which alone would fall on the same banks of shared memory. Each slab begins
// 32 bytes further into the banks than the one before, and the tokens and dimensions of a matrix
// product may be taken in any order: the order here lets every 16-byte load of a warp touch all
// banks evenly (8-byte rows of 64 bytes: K twice). So no swizzle is needed, nor a transposing load.
//
// Lane l of a warp has g = l / 4 and q = l % 4, as in ptx/mma.cuh.
#pragma once

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

template <int kHeadDim, int kValueBytes, bool kTokenScales_ = false>
struct DecodeLayout {
  static constexpr bool kTokenScales = kTokenScales_;
  static constexpr int kRowBytes = kHeadDim * kValueBytes;
  static constexpr int kSlabTokens = kRowBytes <= 128 ? 16 : 8;
  static constexpr int kSlabBytes = kSlabTokens * kRowBytes;
  static constexpr int kSlabStride = kSlabBytes + 32;
  static constexpr int kTileTokens = 4 * kSlabTokens;
  // Behind the slabs, where each token has one: its scale, in the order of the slabs.
  static constexpr int kScaleOffset = 4 * kSlabStride;
  static constexpr int kSlabScaleBytes = kTokenScales ? 4 * kSlabTokens : 0;
  static constexpr int kTileBytes = kScaleOffset + 4 * kSlabScaleBytes;  // of K or V
  static_assert(kTileBytes % 128 == 0 && kScaleOffset % 16 == 0 && kSlabScaleBytes % 16 == 0);

  // Tokens are taken in groups of 8.
  static constexpr int kTokenGroups = kTileTokens / 8;

  OCTAVO_HOST_DEVICE static constexpr int token_slab(int index) {
    return (index / 2 + index % 2 * 2) % 4;
  }
  OCTAVO_HOST_DEVICE static constexpr int token_slot(int group, int index) {
    return 2 * group + index % 2;
  }
  // Token `index` of group `group`: which of the tile it is, and where its row begins.
  OCTAVO_HOST_DEVICE static constexpr int token(int group, int index) {
    return token_slab(index) * kSlabTokens + token_slot(group, index);
  }
  OCTAVO_HOST_DEVICE static constexpr int token_offset(int group, int index) {
    return token_slab(index) * kSlabStride + token_slot(group, index) * kRowBytes;
  }

  // K · Qᵀ, tokens by query rows: a lane loads 16 bytes at a time of token g of each group, and the
  // same dimensions of query row g. Four values of both are one step of 16 dimensions: the
  // operand's low pair, then the high.
  static constexpr int kKeyLoads = kRowBytes / 64;
  static constexpr int kLoadValues = 16 / kValueBytes;
  static constexpr int kKeySteps = kHeadDim / 16;

  OCTAVO_HOST_DEVICE static constexpr int key_load_offset(int load, int q) {
    return 16 * (q + 4 * load);
  }
  OCTAVO_HOST_DEVICE static constexpr int key_load_dim(int load, int q) {
    return kLoadValues * (q + 4 * load);
  }

  // Vᵀ · Pᵀ, dimensions by query rows: a step is two token groups, of each of which a lane loads
  // tokens 2q and 2q + 1, kSpanBytes for a span of the head; value j belongs to dimension group j
  // of the span.
  static constexpr int kSpanBytes = kRowBytes >= 128 ? 16 : 8;
  static constexpr int kSpanValues = kSpanBytes / kValueBytes;
  static constexpr int kSpans = kRowBytes / (8 * kSpanBytes);
  static constexpr int kDimGroups = kSpans * kSpanValues;
  static_assert(kDimGroups == kHeadDim / 8);

  OCTAVO_HOST_DEVICE static constexpr int span_offset(int span, int g) {
    return (span * 8 + g) * kSpanBytes;
  }
  // Dimension `index` (0 .. 7) of dimension group `group`.
  OCTAVO_HOST_DEVICE static constexpr int out_dim(int group, int index) {
    return (group / kSpanValues * 8 + index) * kSpanValues + group % kSpanValues;
  }
};

}  // namespace octavo::backends::cuda
