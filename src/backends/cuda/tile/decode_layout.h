// Where a warp of the decode kernel finds its values: which token is which row of the score matrix,
// which value of a head which row or column of a matrix operand. Plain C++, so that tests
// on a CPU can run the same lines.
//
// A tile is rows of a power of two bytes, as they lie in the cache: all begin at the same bank of
// shared memory. To begin slabs 32 bytes apart would spread them, but copies to addresses that are
// not multiples of 128 bytes arrive at 3.8 TB/s in place of 4.4, and boxes that a tensor map
// swizzles at 4.1 (H200). So lanes that would meet in a bank load the pieces of their rows in
// different orders and exchange them between their registers. Loads of K then touch all banks
// evenly, but take twice the time where values have a byte (no registers are left to exchange
// with); so do loads of V, but in rows of 256 bytes.
//
// Lane l of a warp has g = l / 4 and q = l % 4, as in ptx/mma.cuh.
#pragma once

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

template <int kHeadDim, int kValueBytes_, bool kTokenScales_ = false>
struct DecodeLayout {
  static constexpr int kValueBytes = kValueBytes_;
  static constexpr bool kTokenScales = kTokenScales_;
  static constexpr int kRowBytes = kHeadDim * kValueBytes;

  // Slabs of tokens lie together in the cache, whatever its blocks.
  static constexpr int kSlabTokens = 16;
  static constexpr int kSlabBytes = kSlabTokens * kRowBytes;
  static constexpr int kTileSlabs = kRowBytes <= 128 ? 4 : 2;
  static constexpr int kTileTokens = kTileSlabs * kSlabTokens;
  // Behind the slabs, where each token has one: its scale, in the order of the slabs.
  static constexpr int kScaleOffset = kTileSlabs * kSlabBytes;
  static constexpr int kSlabScaleBytes = kTokenScales ? 4 * kSlabTokens : 0;
  static constexpr int kTileBytes = kScaleOffset + kTileSlabs * kSlabScaleBytes;  // of K or V
  static_assert(kTileBytes % 128 == 0 && kScaleOffset % 16 == 0 && kSlabScaleBytes % 16 == 0);

  // Tokens are taken in groups of 8. Token `index` of group `group`: which of the tile it is. Where
  // two rows share the banks, pairs of tokens change places so that every other lane has an odd
  // one.
  static constexpr int kTokenGroups = kTileTokens / 8;
  static constexpr int kGroupBytes = 8 * kRowBytes;
  OCTAVO_HOST_DEVICE static constexpr int token(int group, int index) {
    return 8 * group + (kRowBytes == 64 ? index ^ index / 2 % 2 : index);
  }

  // K · Qᵀ, tokens by query rows: a lane loads 16 bytes at a time of token g of each group, and the
  // same dimensions of query row g. Four values of both are one step of 16 dimensions: the
  // operand's low pair, then the high. Of odd tokens the loads of a pair change places.
  static constexpr int kKeyLoads = kRowBytes / 64;
  static constexpr bool kSwapsKeys = kKeyLoads > 1 && kValueBytes == 2;
  static constexpr int kLoadValues = 16 / kValueBytes;
  static constexpr int kKeySteps = kHeadDim / 16;

  OCTAVO_HOST_DEVICE static constexpr int key_byte(int load, int q) { return 16 * (q + 4 * load); }
  OCTAVO_HOST_DEVICE static constexpr int key_dim(int load, int q) {
    return key_byte(load, q) / kValueBytes;
  }
  // Where a lane's load number `order` goes.
  OCTAVO_HOST_DEVICE static constexpr int key_offset(int order, int group, int g, int q) {
    return token(group, g) * kRowBytes + key_byte(kSwapsKeys ? order ^ g % 2 : order, q);
  }

  // Vᵀ · Pᵀ, dimensions by query rows: a step is two token groups, of each of which a lane loads
  // tokens 2q and 2q + 1, in spans of kSpanBytes; value j belongs to dimension group j of the span.
  // The lanes that are served at the same time, of kLanes different g, cover with all their spans
  // the banks once.
  static constexpr int kSpanBytes = kRowBytes == 512 ? 16 : 8;
  static constexpr int kSpanValues = kSpanBytes / kValueBytes;
  static constexpr int kSpans = kRowBytes / (8 * kSpanBytes);
  static constexpr int kDimGroups = kSpans * kSpanValues;
  static constexpr int kLanes = 32 / kSpanBytes;
  // As many spans of a token change places as a lane has registers for.
  static constexpr int kTurns = kSpans < 4 || kSpanBytes == 8 ? kSpans : 2;
  static_assert(kDimGroups == kHeadDim / 8);

  OCTAVO_HOST_DEVICE static constexpr int value_byte(int span, int g) {
    return (g / kLanes * kSpans * kLanes + span * kLanes + g % kLanes) * kSpanBytes;
  }
  // Where a lane's load number `order` of a token goes.
  OCTAVO_HOST_DEVICE static constexpr int value_offset(int order, int group, int index, int g) {
    return token(group, index) * kRowBytes + value_byte(order ^ index / 2 % kTurns, g);
  }
  // Dimension `index` (0 .. 7) of dimension group `group`.
  OCTAVO_HOST_DEVICE static constexpr int out_dim(int group, int index) {
    return value_byte(group / kSpanValues, index) / kValueBytes + group % kSpanValues;
  }
};

}  // namespace octavo::backends::cuda
