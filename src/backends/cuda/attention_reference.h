// Attention on the GPU as plainly as it can be written: fp32, every mask, contiguous or paged keys
// and values, LSE. The oracle of the fast kernels; never used to serve.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace octavo::backends::cuda {

// All pointers are device memory. The query rows of a sequence are its last positions: row i of n
// sits at position num_keys - n + i, which is negative with more queries than keys. It sees the
// keys from position - window_left to position + window_right (-1: no limit) that exist, of its
// own chunk. A row that sees no key gives 0 and an lse of -infinity.
struct ReferenceAttentionArgs {
  float* out = nullptr;     // [num_tokens, num_heads, head_dim]
  float* lse = nullptr;     // [num_heads, num_tokens], natural logarithm, sinks left out; or null
  const void* q = nullptr;  // [num_tokens, num_heads, head_dim], bfloat16
  // Contiguous: [num_kv_tokens, num_kv_heads, head_dim].
  // Paged: [num_blocks, num_kv_heads, block_size, head_dim].
  const void* k = nullptr;
  const void* v = nullptr;
  DType kv_dtype = DType::kBF16;  // or kF8E4M3

  int num_tokens = 0;
  int num_seqs = 0;
  int num_heads = 0;  // a multiple of num_kv_heads
  int num_kv_heads = 0;
  int head_dim = 0;                       // at most 256
  const int32_t* cu_seqlens_q = nullptr;  // [num_seqs + 1]
  const int32_t* cu_seqlens_k = nullptr;  // [num_seqs + 1], contiguous only
  const int32_t* seq_lens = nullptr;      // [num_seqs]: keys of each sequence, paged only
  const int32_t* block_table = nullptr;   // [num_seqs, block_table_stride], null: contiguous
  int64_t block_table_stride = 0;
  int block_size = 0;

  float scale = 1.0f;
  float softcap = 0.0f;  // > 0: scores become softcap * tanh(score / softcap)
  int window_left = -1;
  int window_right = -1;           // 0: causal
  int chunk = 0;                   // > 0: keys before the position's multiple of it are not seen
  const float* sinks = nullptr;    // [num_heads]: a score without a value in every row; or null
  const float* k_scale = nullptr;  // [num_kv_heads]: what stored values are multiplied by; or null
  const float* v_scale = nullptr;
  bool token_scales = false;  // paged only: the scales are [num_blocks, num_kv_heads, block_size]
  const uint64_t* tree_mask = nullptr;  // [num_tokens]: bit j: the row sees its sequence's j-th
                                        // query token; replaces window_right. Or null

  // Rounds the probabilities to 16 bits before they meet V, as kernels do (bfloat16, or half where
  // KV is FP8): the distance to the exact result says how far a correct kernel may be off.
  bool working_precision = false;
};

void attention_reference(const ReferenceAttentionArgs& args, cudaStream_t stream);

}  // namespace octavo::backends::cuda
