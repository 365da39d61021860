// The kernels of the attention harness: random values, written where a cache keeps its tokens.
#pragma once

#include <cstdint>

#include "backends/cuda/attention_reference.h"

namespace octavo::backends::cuda {

// Writes random values of args.kv_dtype to every slot of `cache` (K or V) that holds a token.
// cu_seqlens_k: [num_seqs + 1].
void fill_random_cache(const ReferenceAttentionArgs& args, void* cache, int64_t num_kv_tokens,
                       const int32_t* cu_seqlens_k, uint64_t seed);

void fill_random_bf16(uint16_t* values, int64_t count, uint64_t seed);

}  // namespace octavo::backends::cuda
