// What attention and write_kv need to know of a ragged batch over a paged KV cache.
//
// A batch is `num_tokens` query rows of `num_seqs` sequences, concatenated: sequence s owns rows
// [cu_seqlens_q[s], cu_seqlens_q[s+1]). Prefill chunks and decode rows mix freely. The KV cache of
// a layer is cut into blocks of `block_size` tokens; token position p of sequence s lies in block
// block_table[s * block_table_stride + p / block_size], slot p % block_size.
// Invariants: seq_lens[s] >= cu_seqlens_q[s+1] - cu_seqlens_q[s]; the query rows of a sequence are
// its last positions: row r sits at position seq_lens[s] - (cu_seqlens_q[s+1] - r). Entries of the
// table beyond ceil(seq_lens[s] / block_size) are never read; slots that no token was written to
// may hold anything, NaN included.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/mat.h"

namespace octavo::ops {

// A row of the cache is what a token leaves in it for one KV head: head_dim values of `dtype`
// (kF32, kBF16, kF16; on GPUs kBF16 or kF8E4M3), or of kI8 codes and behind them, not aligned, the
// float that they are multiplied with: the row's largest magnitude / 127, so that code =
// round(value / scale), ties to even. A row whose values are all below kLeastKvMagnitude counts as
// zero, with a scale of zero; one that holds an infinity or a NaN has a NaN for its scale and zeros
// for codes.
inline int64_t kv_row_bytes(DType dtype, int64_t head_dim) {
  const int64_t scale_bytes = dtype == DType::kI8 ? sizeof(float) : 0;
  return dtype_bytes(dtype, head_dim) + scale_bytes;
}
inline constexpr float kLeastKvMagnitude = 1e-30f;

// One layer's cache. k and v: [num_blocks, num_kv_heads, block_size] rows.
struct PagedKv {
  void* k = nullptr;
  void* v = nullptr;
  DType dtype = DType::kBF16;
  int64_t num_blocks = 0;
  int64_t block_size = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;

  int64_t row_bytes() const { return kv_row_bytes(dtype, head_dim); }
  int64_t block_bytes() const { return num_kv_heads * block_size * row_bytes(); }  // of k or of v
  // Where KV head `kv_head` of the token in slot `slot` of `part`, which is k or v, lies.
  std::byte* row(void* part, int64_t block, int64_t kv_head, int64_t slot) const {
    const int64_t index = (block * num_kv_heads + kv_head) * block_size + slot;
    return static_cast<std::byte*>(part) + index * row_bytes();
  }
};

// Sequences with at most so many query rows are short: GPUs compute them as they do decodes.
inline constexpr int64_t kMaxShortRows = 8;

// All pointers are device memory.
struct SequenceBatch {
  int64_t num_tokens = 0;
  int64_t num_seqs = 0;
  const int32_t* cu_seqlens_q = nullptr;  // [num_seqs + 1], starts with 0, ends with num_tokens
  const int32_t* seq_lens = nullptr;      // [num_seqs], KV length including this step
  const int32_t* block_table = nullptr;   // [num_seqs, block_table_stride]
  int64_t block_table_stride = 0;
  const int64_t* slot_mapping = nullptr;  // [num_tokens]: block * block_size + slot
  const int32_t* positions = nullptr;     // [num_tokens]

  // What the host knows of them: the first num_short_seqs sequences have at most max_short_rows
  // (<= kMaxShortRows) query rows. A backend that plans its work does so once for all layers of a
  // step: step_id differs from that of any other step of the process; 0: nothing may be kept.
  int64_t num_short_seqs = 0;
  int64_t max_short_rows = 0;
  uint64_t step_id = 0;
};

// out[t, h, :] = softmax(softcap(scale * q[t, h, :] · K[h / group]ᵀ) over the visible positions) ·
// V. q, out: [num_tokens, num_heads * head_dim]. Keys are reduced in tiles of 256 absolute
// positions merged left to right, so that the result for a row depends on nothing else in the
// batch. The row at position p sees the positions first_visible(p) .. p; keys and values before
// those of all rows of a sequence are not read, nor are their entries of the block table; GPUs,
// whose tiles they share, may read them, so that they must be numbers and in the cache.
struct AttentionArgs {
  Mat out;
  Mat q;
  PagedKv kv;
  SequenceBatch batch;
  int64_t num_heads = 0;  // a multiple of kv.num_kv_heads
  float scale = 1.0f;     // usually head_dim^-0.5
  int64_t window = 0;     // > 0: only the last `window` positions, its own included
  int64_t chunk = 0;      // > 0: only positions of its own chunk, p / chunk
  float softcap = 0;      // > 0: a score s becomes softcap * tanh(s / softcap)

  int64_t first_visible(int64_t position) const {
    int64_t first = 0;
    if (window > 0) first = std::max(first, position - window + 1);
    if (chunk > 0) first = std::max(first, position / chunk * chunk);
    return first;
  }
};
inline constexpr int64_t kAttentionTile = 256;

// Stores k and v, [num_tokens, num_kv_heads * head_dim], at slot_mapping[t] of the cache.
struct WriteKvArgs {
  PagedKv kv;
  Mat k;
  Mat v;
  const int64_t* slot_mapping = nullptr;  // [num_tokens]
};

}  // namespace octavo::ops
