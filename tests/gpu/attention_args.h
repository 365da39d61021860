// The arguments of each attention kernel for a case of the harness: for its tests and its
// benchmark.
#pragma once

#include <algorithm>

#include "backends/cuda/attention_decode.h"
#include "backends/cuda/attention_prefill.h"
#include "tests/gpu/attention_harness.h"

namespace octavo::backends::cuda {

inline DecodeArgs decode_args(const AttentionInputs& inputs, const AttentionOutputs& outputs) {
  const ReferenceAttentionArgs from = inputs.args();
  DecodeArgs args;
  args.out = outputs.out();
  args.lse = outputs.lse();
  args.q = from.q;
  args.k = from.k;
  args.v = from.v;
  args.kv_dtype = from.kv_dtype;
  args.num_tokens = from.num_tokens;
  args.num_seqs = from.num_seqs;
  args.num_heads = from.num_heads;
  args.num_kv_heads = from.num_kv_heads;
  args.head_dim = from.head_dim;
  args.max_q_len = *std::max_element(inputs.shape().q_lens.begin(), inputs.shape().q_lens.end());
  args.cu_seqlens_q = from.cu_seqlens_q;
  args.seq_lens = from.seq_lens;
  args.block_table = from.block_table;
  args.block_table_stride = from.block_table_stride;
  args.block_size = from.block_size;
  args.scale = from.scale;
  args.softcap = from.softcap;
  args.window_left = from.window_left;
  args.window_right = from.window_right;
  args.chunk = from.chunk;
  args.sinks = from.sinks;
  args.k_scale = from.k_scale;
  args.v_scale = from.v_scale;
  args.scale_stride = 1;
  args.token_scales = from.token_scales;
  args.tree_mask = from.tree_mask;
  return args;
}

inline PrefillArgs prefill_args(const AttentionInputs& inputs, const AttentionOutputs& outputs) {
  const ReferenceAttentionArgs from = inputs.args();
  PrefillArgs args;
  args.out = outputs.out();
  args.lse = outputs.lse();
  args.q = from.q;
  args.k = from.k;
  args.v = from.v;
  args.num_tokens = from.num_tokens;
  args.num_seqs = from.num_seqs;
  args.num_heads = from.num_heads;
  args.num_kv_heads = from.num_kv_heads;
  args.head_dim = from.head_dim;
  args.cu_seqlens_q = from.cu_seqlens_q;
  args.cu_seqlens_k = from.cu_seqlens_k;
  args.num_kv_tokens = inputs.num_kv_tokens();
  args.block_table = from.block_table;
  args.block_table_stride = from.block_table_stride;
  args.seq_lens = from.seq_lens;
  args.num_blocks = inputs.num_blocks();
  args.block_size = from.block_size;
  args.scale = from.scale;
  args.softcap = from.softcap;
  args.mask = {from.window_left, from.window_right, from.chunk};
  args.sinks = from.sinks;
  args.kv_dtype = from.kv_dtype;
  args.k_scale = from.k_scale;
  args.v_scale = from.v_scale;
  args.scale_stride = 1;
  return args;
}

}  // namespace octavo::backends::cuda
