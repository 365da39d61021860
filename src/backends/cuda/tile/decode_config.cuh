// What the parts of the decode kernel share: its shape, its shared memory, and which query rows an
// item has.
#pragma once

#include "backends/cuda/tile/decode_stream.cuh"

namespace octavo::backends::cuda {

// How a kind of GPU runs it. Where registers allow it a multiprocessor holds two blocks, so that
// the start and the end of one hide behind the other: kLight.
struct HopperDecode {
  template <class Layout>
  using Copies = BulkCopies<Layout>;
  static constexpr int kLightWarps = 4, kLightMergeWarps = 2, kLightBytes = 113 * 1024;
  static constexpr int kHeavyBytes = 226 * 1024;
};

// From Ampere on every GPU gives a block 99 KB.
struct PortableDecode {
  template <class Layout>
  using Copies = ThreadCopies<Layout>;
  static constexpr int kLightWarps = 3, kLightMergeWarps = 1, kLightBytes = 81 * 1024;
  static constexpr int kHeavyBytes = 99 * 1024;
};

template <int kHeadDim_, int kValueBytes, int kHalves_, class Platform, bool kTokenScales>
struct DecodeConfig {
  using Layout = DecodeLayout<kHeadDim_, kValueBytes, kTokenScales>;
  using Copies = typename Platform::template Copies<Layout>;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kHalves = kHalves_;
  static constexpr int kRows = 8 * kHalves;
  static constexpr int kTileRows = decode_tile_rows(kHeadDim);  // of a partial result

  static constexpr bool kLight = decode_is_light(kHeadDim, kRows);
  static constexpr int kBlocksEach = kLight ? 2 : 1;  // a multiprocessor holds at the same time
  static constexpr int kSharedBytes = kLight ? Platform::kLightBytes : Platform::kHeavyBytes;

  // Shared memory beside the ring.
  static constexpr int kFixedBytes = 2560;
  static constexpr int kWarpValueBytes = kRows * kHeadDim * 4;
  static constexpr int num_tiles(int warps) {
    return (kSharedBytes - kFixedBytes - warps * kWarpValueBytes) / Layout::kTileBytes;
  }
  // As many as leave each a tile and one on its way.
  static constexpr int num_warps(int warps) {
    return warps > 2 && num_tiles(warps) / 2 <= warps ? num_warps(warps - 1) : warps;
  }
  static constexpr int kWarps = num_warps(kLight ? Platform::kLightWarps : 4);  // that compute
  static constexpr int kKeyStages = num_tiles(kWarps) / 2;
  static constexpr int kValueStages = num_tiles(kWarps) - kKeyStages;  // values stay longer
  static_assert(kKeyStages >= kWarps);
  using Pipe = DecodePipe<Layout, Copies, kKeyStages, kValueStages>;
  static constexpr int kDynamicBytes = Pipe::kRingBytes + kWarps * kWarpValueBytes;

  // Beside those that compute, some merge and two copy. A quarter of a multiprocessor gives its
  // warps 16,384 registers: with two blocks a multiprocessor 128 each for 8 warps, which is too few
  // to compute with and more than the others need, or 168 for 6; with one block 255 for 8.
  static constexpr int kMergeWarps = kLight ? Platform::kLightMergeWarps : 2;
  static constexpr bool kMovesRegisters = kLight && kWarps + kMergeWarps + 2 == 8;
  static constexpr int kThreads = 32 * (kWarps + kMergeWarps + 2);
};

// Bounds that tell tiles which need no mask from those that do. In shared memory: the loop over
// tiles has no registers to spare.
struct alignas(16) DecodeLimits {
  int begin, end;                           // keys that some row sees lie between
  int seen_by_all_begin, seen_by_all_last;  // every row sees these and all between

  __device__ bool all_see(int token, int count) const {
    return token >= seen_by_all_begin && token + count - 1 <= seen_by_all_last;
  }
  __device__ bool all_exist(int token, int count) const {
    return token >= begin && token + count <= end;
  }
};

// Where a warp that computes is: counted from the kernel's start, and the split's first key. In
// shared memory for the same reason.
struct alignas(16) DecodePlace {
  uint32_t item, split, tile;
  int begin;
};

// Beside the ring and the values to merge.
template <class Config>
struct DecodeShared {
  typename Config::Pipe pipe;
  uint64_t merge_full, merge_empty;
  float2 stats[Config::kWarps][Config::kRows];   // highest score and sum of each row
  int2 seen[Config::kWarps][Config::kRows];      // first and last key, each warp for itself
  uint64_t tree[Config::kWarps][Config::kRows];  // which query tokens, where there is a tree mask
  DecodeLimits limits[Config::kWarps];
  DecodePlace places[Config::kWarps];
  float2 totals[2][Config::kRows];  // of an item's quads so far; the two in turn
  int is_last_part;

  // By one thread; then a barrier of the block.
  __device__ void init() {
    for (DecodePlace& place : places) place = {};
    pipe.init(Config::Copies::kArrivals, Config::kWarps + 2);  // and a merger, and a producer
    mbarrier_init(shared_address(&merge_full), Config::kWarps);
    mbarrier_init(shared_address(&merge_empty), 1);
    mbarrier_fence_init();
  }
};

// The query rows of an item and which keys they see. A row is a token and a head of the group; rows
// past the item's last repeat it.
struct ItemRows {
  const DecodeKernelArgs& launch;
  const DecodeItem& item;
  int first;  // of the item's rows, among the sequence's
  int count;  // at most `tile_rows`; may be 0 or less

  __device__ ItemRows(const DecodeKernelArgs& kernel_args, const DecodeItem& of, int tile_rows)
      : launch(kernel_args),
        item(of),
        first(of.row_tile * tile_rows),
        count(min(tile_rows, of.num_rows)) {}

  __device__ int token(int row) const { return launch.group.divide(first + min(row, count - 1)); }
  __device__ int head(int row) const {
    return item.kv_head * launch.group.divisor() +
           launch.group.remainder(first + min(row, count - 1));
  }
  __device__ int position(int row) const {
    return item.work.num_keys - item.work.q_len + token(row);
  }
  __device__ int lowest_key(int row) const {
    return cuda::lowest_key(decode_mask(launch.args), position(row));
  }
  __device__ int highest_key(int row) const {
    const int last = item.work.end - 1;
    const bool all = launch.args.window_right < 0 || launch.args.tree_mask != nullptr;
    return all ? last : min(last, position(row));
  }
  // The key of the sequence's first query token: from here on a tree mask says what is seen.
  __device__ int first_query_key() const { return item.work.num_keys - item.work.q_len; }
};

// Vectors of a row change places so that neither writing nor reading meets a bank twice.
template <class Layout>
__device__ inline int merge_index(int row, int vector) {
  const int pair = row / 2 % 4;
  const int swap = Layout::kSpanValues == 4 ? 2 * pair : pair % 2 + pair / 2 * 4;
  return row * Layout::kDimGroups * 2 + (vector ^ swap);
}

}  // namespace octavo::backends::cuda
