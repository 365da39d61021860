// A step's keys and values into the paged cache, with queries and keys rotated on the way (RoPE):
// one launch a layer, one block a token. What a token gives depends on nothing else in the batch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "octavo/status.h"
#include "tensor/dtype.h"

namespace octavo::backends::cuda {

// What a stored E4M3 value is multiplied by to be what it was.
enum class KvScale {
  kTensor,     // one number, given
  kHead,       // [num_kv_heads], given
  kTokenHead,  // [num_blocks, num_kv_heads, block_size]: the kernel finds and writes them
};

// All pointers are device memory, q, k, v and the cache aligned to 16 bytes. Rotated are the pairs
// (i, i + rotary_dim / 2) of a head by positions[t] * inv_freq[i], as ops::RopeArgs says.
struct KvWriteArgs {
  void* q = nullptr;        // [num_tokens, num_heads, head_dim], bfloat16, rotated in place
  const void* k = nullptr;  // [num_tokens, num_kv_heads, head_dim], bfloat16
  const void* v = nullptr;
  int64_t q_stride = 0;  // values from one token to the next, multiples of 8: q, k and v may be
  int64_t k_stride = 0;  // parts of one matrix
  int64_t v_stride = 0;
  int num_tokens = 0;
  int num_heads = 0;  // 0: there is no q
  int num_kv_heads = 0;
  int head_dim = 0;  // a multiple of 16, at most 512

  void* k_cache = nullptr;  // [num_blocks, num_kv_heads, block_size, head_dim]
  void* v_cache = nullptr;
  DType kv_dtype = DType::kBF16;  // or kF8E4M3
  int64_t num_blocks = 0;
  int block_size = 0;                     // a multiple of 16
  const int64_t* slot_mapping = nullptr;  // [num_tokens]: block * block_size + slot; a token whose
                                          // slot is not in the cache is padding and left alone

  int rotary_dim = 0;                  // a multiple of 16, at most head_dim; 0: no rotation
  const int32_t* positions = nullptr;  // [num_tokens]
  const float* inv_freq = nullptr;     // [rotary_dim / 2]
  float attention_factor = 1.0f;       // multiplies what is rotated

  KvScale scale_kind = KvScale::kTensor;  // of E4M3
  float* k_scale = nullptr;               // null: 1, with kTensor
  float* v_scale = nullptr;
};

// `overlap_previous`: may start while the kernel before it in the stream still runs, which may
// write q, k, v and the cache, but not slot_mapping, positions and inv_freq. Throws DeviceError
// where the launch fails.
Status write_kv(const KvWriteArgs& args, cudaStream_t stream, bool overlap_previous = false);

}  // namespace octavo::backends::cuda
