// Attention of few queries over a paged cache (decode, and up to 8 tokens of a speculated
// sequence): the cache is read once, at the speed of memory. Sequences of the batch with more than
// max_q_len query rows are left alone, for prefill.
//
// What a row gives depends on its own sequence alone, bit for bit, not on the batch. A row that
// sees no key gives 0 and an lse of -infinity. Slots that hold no token may hold anything, NaN
// included; table entries beyond a sequence's length are never read. Lengths are read only on the
// device, so that a captured graph may be replayed with others.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "octavo/status.h"
#include "tensor/dtype.h"

namespace octavo::backends::cuda {

// How the keys of a sequence are split: a function of their number alone. A split is as long as
// gives target_blocks over all heads, or half of them where it has enough_tokens then, and at least
// min_tokens. What splits give is added up by fours, and these in order. So a block may take one
// split, two, four or all of a sequence, and the plan chooses by the batch: many blocks finish a
// small batch sooner, but each costs a start, an end and a partial result.
struct DecodeSplits {
  int target_blocks = 128;  // about one for each multiprocessor
  int enough_tokens = 1024;
  int min_tokens = 256;
  int part_splits = 0;  // of a block: 1, 2, 4, or if greater all; 0: by the batch. Changes no bit
};

// All pointers are device memory. The query rows of a sequence are its last positions: row i of n
// sits at position num_keys - n + i.
struct DecodeArgs {
  void* out = nullptr;      // [num_tokens, num_heads, head_dim], bfloat16
  float* lse = nullptr;     // [num_heads, num_tokens], natural logarithm, sinks left out; or null
  const void* q = nullptr;  // [num_tokens, num_heads, head_dim], bfloat16
  const void* k = nullptr;  // [num_blocks, num_kv_heads, block_size, head_dim]
  const void* v = nullptr;
  DType kv_dtype = DType::kBF16;  // or kF8E4M3

  int num_tokens = 0;
  int num_seqs = 0;
  int num_heads = 0;  // a multiple of num_kv_heads
  int num_kv_heads = 0;
  int head_dim = 0;  // 64, 128 or 256
  int max_q_len = 1;
  const int32_t* cu_seqlens_q = nullptr;  // [num_seqs + 1]
  const int32_t* seq_lens = nullptr;      // [num_seqs]: keys of each sequence
  const int32_t* block_table = nullptr;   // [num_seqs, block_table_stride]
  int64_t block_table_stride = 0;
  int block_size = 0;  // a multiple of 16

  float scale = 1.0f;    // > 0, usually head_dim^-0.5
  float softcap = 0.0f;  // > 0: scores become softcap * tanh(score / softcap)
  int window_left = -1;  // keys before the query's own that it sees; -1: all
  int window_right = 0;  // 0: causal, -1: every key of the sequence
  int chunk = 0;         // > 0: only keys of the query's own chunk of positions
  // [num_tokens]: which of its sequence's query tokens a row sees: bit j for the j-th, at most 64.
  // Of older keys it sees what the masks above say, where its place in the batch counts as its
  // position. Null: those before it, and itself.
  const uint64_t* tree_mask = nullptr;
  const float* sinks = nullptr;    // [num_heads]: a score without a value in every row; or null
  const float* k_scale = nullptr;  // what stored values are multiplied by; or null
  const float* v_scale = nullptr;
  int scale_stride = 0;       // from one kv head's scale to the next; 0: one for all
  bool token_scales = false;  // of E4M3: the scales are [num_blocks, num_kv_heads, block_size]

  DecodeSplits splits;
};

// What a call needs of workspace, which belongs to one stream. It depends on the counts in `args`
// alone: a workspace for the largest batch serves all smaller ones.
size_t decode_workspace_bytes(const DecodeArgs& args);

// Lists the work of a batch into `workspace`. Calls that differ only in out, lse, q, k, v, scale,
// softcap, sinks and the scales of K and V (the layers of a model) share one list.
Status plan_decode(const DecodeArgs& args, void* workspace, cudaStream_t stream);

struct DecodeLaunch {
  // May start while the kernel before it in the stream still runs. That kernel may write q and the
  // keys and values of the query rows, but nothing else that this call reads.
  bool overlap_previous = false;
  // The kernel before it in the stream is the one of plan_decode: it starts while that runs.
  bool after_plan = false;
  // Takes the kernel that runs on every GPU, also where there is a better one.
  bool portable = false;
};

// Attention by the list in `workspace`. Throws DeviceError where the launch fails.
Status decode_attention(const DecodeArgs& args, void* workspace, cudaStream_t stream,
                        const DecodeLaunch& launch = {});

}  // namespace octavo::backends::cuda
