// How the decode kernel's work is cut, and the workspace that carries it from the planning kernel
// to every layer. Plain C++: the kernels and the tests on a CPU use the same lines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/attention_decode.h"
#include "backends/cuda/tile/attention_mask.h"
#include "backends/cuda/tile/decode_layout.h"
#include "backends/cuda/tile/fast_divisor.h"

namespace octavo::backends::cuda {

// A part of a sequence, some of its splits: work for every kv head and row tile.
struct alignas(16) DecodeWork {
  int seq;
  int begin, end;  // keys; begin is a multiple of 16
  int split_tokens;
  int q_row;  // of the sequence's first query, in the batch
  int q_len;
  int num_keys;  // of the whole sequence
  uint8_t part, num_parts;
  uint16_t part_splits;  // of every part but the last
};
static_assert(sizeof(DecodeWork) == 32);

struct DecodeHeader {
  uint32_t ticket;  // wraps around by itself at the end of a launch
  int num_work;
  int num_items;  // num_work * num_kv_heads * row tiles
  int unused[5];
};
static_assert(sizeof(DecodeHeader) == 32);

// Query rows of one kv head (tokens by heads of the group) that a block takes at a time: as many as
// registers hold the output of.
OCTAVO_HOST_DEVICE constexpr int decode_tile_rows(int head_dim) {
  return head_dim > 128 ? 8 : 16;
}
// The most splits of one sequence, whatever the heads.
inline constexpr int kMaxDecodeSplits = 64;
// Splits are multiples of this, so that only a sequence's last tile is partial.
inline constexpr int kDecodeSplitUnit = 128;

OCTAVO_HOST_DEVICE constexpr int round_up(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

OCTAVO_HOST_DEVICE constexpr AttentionMask decode_mask(const DecodeArgs& args) {
  return {args.window_left, args.window_right, args.chunk};
}

OCTAVO_HOST_DEVICE constexpr int decode_row_tiles(const DecodeArgs& args) {
  const int rows = args.max_q_len * (args.num_heads / args.num_kv_heads);
  const int tile_rows = decode_tile_rows(args.head_dim);
  return (rows + tile_rows - 1) / tile_rows;
}

OCTAVO_HOST_DEVICE constexpr int decode_max_splits(const DecodeArgs& args) {
  const int splits = args.splits.target_blocks / (args.num_kv_heads * decode_row_tiles(args));
  return splits < 1 ? 1 : splits > kMaxDecodeSplits ? kMaxDecodeSplits : splits;
}

// The most items that a batch can have, whatever its lengths.
OCTAVO_HOST_DEVICE constexpr int64_t decode_max_items(const DecodeArgs& args) {
  return int64_t{args.num_seqs} * decode_max_splits(args) * args.num_kv_heads *
         decode_row_tiles(args);
}

// The keys that a sequence's rows see, from a multiple of 16, and how they are cut.
struct DecodeCut {
  int begin, end;
  int split_tokens;
  int num_splits;  // at least 1
};

OCTAVO_HOST_DEVICE constexpr DecodeCut decode_cut(const DecodeArgs& args, int num_keys, int q_len) {
  DecodeCut cut = {0, num_keys, 0, 1};
  const int lowest = lowest_key(decode_mask(args), num_keys - q_len);
  cut.begin = lowest / 16 * 16;
  const int count = cut.end > cut.begin ? cut.end - cut.begin : 0;
  const int max_splits = decode_max_splits(args);
  const int half_splits = max_splits > 1 ? max_splits / 2 : 1;
  const int half_share = (count + half_splits - 1) / half_splits;
  int tokens = (count + max_splits - 1) / max_splits;
  if (half_share < args.splits.enough_tokens) {
    tokens = half_share;
  } else if (tokens < args.splits.enough_tokens) {
    tokens = args.splits.enough_tokens;
  }
  if (tokens < args.splits.min_tokens) tokens = args.splits.min_tokens;
  cut.split_tokens = round_up(tokens, kDecodeSplitUnit);
  cut.num_splits = count == 0 ? 1 : (count + cut.split_tokens - 1) / cut.split_tokens;
  return cut;
}

// How many splits a part may have: 1, 2, 4 or all. A batch has one choice for all sequences.
inline constexpr int kDecodePartChoices = 4;

OCTAVO_HOST_DEVICE constexpr int decode_part_splits(int choice) {
  return choice < kDecodePartChoices - 1 ? 1 << choice : kMaxDecodeSplits;
}

// How a sequence falls into parts.
struct DecodeParts {
  int splits;  // of every part but the last
  int count;
  int tokens;  // of every part but the last

  OCTAVO_HOST_DEVICE constexpr DecodeParts(const DecodeCut& cut, int choice)
      : splits(decode_part_splits(choice)), count(1), tokens(cut.end - cut.begin) {
    if (splits >= cut.num_splits) return;
    count = (cut.num_splits + splits - 1) / splits;
    tokens = splits * cut.split_tokens;
  }
};

// What a batch adds up to with one of the choices, over all heads.
struct DecodeLoad {
  float keys;
  float items;
  float longest;  // keys of an item
};

// Where a batch runs. `item_keys`: what an item costs beside its keys, as so many of them.
struct DecodeBlocks {
  int multiprocessors;
  int each;  // run at the same time on a multiprocessor
  int item_keys;
};

// Whether two blocks of the kernel share a multiprocessor: where registers allow it.
OCTAVO_HOST_DEVICE constexpr bool decode_is_light(int head_dim, int rows) {
  return head_dim <= 128 && rows <= 8;
}

inline DecodeBlocks decode_blocks(const DecodeArgs& args, int multiprocessors) {
  constexpr int64_t kItemBytes = 32768;
  const int rows = args.max_q_len * (args.num_heads / args.num_kv_heads);
  const int64_t key_bytes = 2 * dtype_bytes(args.kv_dtype, args.head_dim);
  return {multiprocessors, decode_is_light(args.head_dim, rows) ? 2 : 1,
          static_cast<int>(kItemBytes / key_bytes)};
}

// How long a batch takes, in the time of one key on a block of a busy GPU; fitted to measurements
// of an H200. Where there are more items than blocks these take them in rounds, of which the last
// may have few, and rounds do not follow each other closely unless there are many.
OCTAVO_HOST_DEVICE constexpr float decode_time(const DecodeLoad& load, const DecodeBlocks& blocks) {
  constexpr float kAlone = 0.6f;  // of the time, where a block has its multiprocessor for itself
  const auto item_keys = static_cast<float>(blocks.item_keys);
  const float longest = load.longest + item_keys;
  const int count = blocks.multiprocessors * blocks.each;
  if (load.items <= static_cast<float>(blocks.multiprocessors))
    return blocks.each > 1 ? kAlone * longest : longest;
  if (load.items <= static_cast<float>(count)) return longest;
  const float all_keys = load.keys + item_keys * load.items;
  const float rounds = all_keys / (static_cast<float>(count) * longest);
  if (rounds <= 1.0f) return 1.5f * longest;
  const auto whole = static_cast<float>(static_cast<int64_t>(rounds));
  const float missing = rounds > whole ? whole + 1.0f - rounds : 0.0f;
  return (rounds + 0.6f * missing + 0.5f / rounds) * longest;
}

// The parts of the workspace, in this order, each aligned to 128 bytes.
struct DecodeWorkspace {
  DecodeHeader* header;
  uint32_t* arrivals;     // [num_seqs, num_kv_heads, row tiles]: parts that have ended
  DecodeWork* work;       // [at most num_seqs * max splits]
  float* partial_stats;   // [items, tile rows, 2]: highest score (base 2) and sum
  float* partial_values;  // [items, tile rows, head_dim], not normalised
  size_t bytes;
};

// Of memory that may be null: then only `bytes` says something.
inline DecodeWorkspace decode_workspace(const DecodeArgs& args, void* memory) {
  size_t bytes = 0;
  const auto take = [&](size_t size) {
    void* part = memory != nullptr ? static_cast<char*>(memory) + bytes : nullptr;
    bytes += (size + 127) / 128 * 128;
    return part;
  };
  const auto num_seqs = static_cast<size_t>(args.num_seqs);
  const auto heads =
      static_cast<size_t>(args.num_kv_heads) * static_cast<size_t>(decode_row_tiles(args));
  const size_t max_work = num_seqs * static_cast<size_t>(decode_max_splits(args));
  const size_t rows = static_cast<size_t>(decode_max_items(args)) *
                      static_cast<size_t>(decode_tile_rows(args.head_dim));
  DecodeWorkspace workspace;
  workspace.header = static_cast<DecodeHeader*>(take(sizeof(DecodeHeader)));
  workspace.arrivals = static_cast<uint32_t*>(take(num_seqs * heads * sizeof(uint32_t)));
  workspace.work = static_cast<DecodeWork*>(take(max_work * sizeof(DecodeWork)));
  workspace.partial_stats = static_cast<float*>(take(rows * 2 * sizeof(float)));
  workspace.partial_values =
      static_cast<float*>(take(rows * static_cast<size_t>(args.head_dim) * sizeof(float)));
  workspace.bytes = bytes;
  return workspace;
}

// What the attention kernels are given.
struct DecodeKernelArgs {
  DecodeArgs args;
  DecodeWorkspace workspace;
  FastDivisor row_tiles;
  FastDivisor heads;  // kv heads times row tiles: items of a part
  FastDivisor group;  // query heads of a kv head
  FastDivisor block_size;
  bool after_plan;  // DecodeLaunch::after_plan
};

void launch_plan_decode(const DecodeArgs& args, void* memory, cudaStream_t stream);

// The instances of the kernel, each in a file of its own. `overlap`: may start while the kernel
// before it still runs.
void launch_decode_sm90_bf16(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap);
void launch_decode_sm90_fp8(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap);
void launch_decode_sm90_fp8_token_scales(const DecodeKernelArgs& launch, cudaStream_t stream,
                                         bool overlap);
void launch_decode_portable_bf16(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap);
void launch_decode_portable_fp8(const DecodeKernelArgs& launch, cudaStream_t stream, bool overlap);
void launch_decode_portable_fp8_token_scales(const DecodeKernelArgs& launch, cudaStream_t stream,
                                             bool overlap);

}  // namespace octavo::backends::cuda
