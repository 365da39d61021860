// Attention of many queries at once (prefill): FlashAttention-3's scheme on Hopper, else
// FlashAttention-2's, both in our own CUDA C++ and PTX. One call serves a ragged batch of whole
// prompts, chunks on a cached prefix and single rows, over contiguous or paged keys and values.
//
// What a row gives does not depend on the rest of the batch, on where its block lies or on how the
// prompt was cut, bit for bit. A row that sees no key gives 0 and an lse of -infinity. Slots of the
// cache beyond a sequence's length may hold anything, NaN included.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backends/cuda/tile/attention_mask.h"
#include "octavo/status.h"
#include "tensor/dtype.h"

namespace octavo::backends::cuda {

// All pointers are device memory. Tensors are contiguous, out and q bfloat16. A call reads lengths
// only on the device, so that a captured graph may be replayed with others.
struct PrefillArgs {
  void* out = nullptr;      // [num_tokens, num_heads, head_dim]
  float* lse = nullptr;     // [num_heads, num_tokens], natural logarithm, sinks left out; or null
  const void* q = nullptr;  // [num_tokens, num_heads, head_dim]
  // Contiguous: [num_kv_tokens, num_kv_heads, head_dim].
  // Paged: [num_blocks, num_kv_heads, block_size, head_dim].
  const void* k = nullptr;
  const void* v = nullptr;
  // Or kF8E4M3: arithmetic is then in half precision, in which queries are rounded and saturate.
  DType kv_dtype = DType::kBF16;

  int num_tokens = 0;
  int num_seqs = 0;
  int num_heads = 0;  // a multiple of num_kv_heads
  int num_kv_heads = 0;
  int head_dim = 0;                       // 64, 128 or 256
  const int32_t* cu_seqlens_q = nullptr;  // [num_seqs + 1]

  const int32_t* cu_seqlens_k = nullptr;  // [num_seqs + 1], contiguous only
  int64_t num_kv_tokens = 0;

  const int32_t* block_table = nullptr;  // [num_seqs, block_table_stride], null: contiguous
  int64_t block_table_stride = 0;
  const int32_t* seq_lens = nullptr;  // [num_seqs]: keys of each sequence, paged only
  int64_t num_blocks = 0;
  int block_size = 0;  // 16, 32, 64, 128 or 256

  float scale = 1.0f;    // > 0, usually head_dim^-0.5
  float softcap = 0.0f;  // > 0: scores become softcap * tanh(score / softcap)
  AttentionMask mask;
  const float* sinks = nullptr;    // [num_heads]: a score without a value in every row; or null
  const float* k_scale = nullptr;  // what stored values are multiplied by; E4M3 only, or null
  const float* v_scale = nullptr;
  int scale_stride = 0;  // from one kv head's scale to the next; 0: one for all

  // Takes the kernel that runs on every GPU, also where there is a better one. Of a list of work
  // and the calls that go by it, all or none.
  bool portable = false;
};

// What `args` needs of workspace on this GPU; it belongs to one stream. It depends on the counts in
// `args` alone: a workspace for the largest batch serves all smaller ones.
size_t prefill_workspace_bytes(const PrefillArgs& args);

// Lists the work of a batch into `workspace`, longest first. Calls that differ only in out, lse, q,
// k, v, scale, softcap, sinks and the scales of K and V (the layers of a model) share one list.
Status plan_prefill(const PrefillArgs& args, void* workspace, cudaStream_t stream);

// Attention by the list in `workspace`.
Status prefill_attention(const PrefillArgs& args, void* workspace, cudaStream_t stream);

}  // namespace octavo::backends::cuda
