// The inner products of attention, for one type of cached rows and one arithmetic: queries with a
// panel of keys, and their weights with values. Every output sums in the order of head_dim or of
// positions by itself, whatever is computed beside it. Plain structs, as in micro_kernels.h.
#pragma once

#include <stdint.h>

namespace octavo::backends::cpu {

inline constexpr int64_t kMaxQueries = 64;  // computed together; the scores of a tile are 64 KB
inline constexpr int64_t kValueChunk = 64;  // rows of values that are read at a time

// Types of cached rows: kF32, kF16, kBF16 and kI8 with a scale, see ops::PagedKv.
inline constexpr int kNumKvTypes = 4;

// Room that a kernel needs beside its arguments.
constexpr int64_t attention_scratch_bytes(int64_t padded_head_dim) {
  const int64_t weights = kMaxQueries * kValueChunk * 2;
  return kValueChunk * padded_head_dim * 4 + weights;
}

// scores[i, 0..panel) = queries[i] · keys[0..panel)
struct ScorePanel {
  float* scores;
  int64_t scores_stride;
  const float* queries;  // [num_queries, head_dim], each as pack_query left it
  int64_t num_queries;
  const void* const* keys;  // [panel] rows of the cache
  int64_t head_dim;
  void* scratch;
};

// out[i, 0..head_dim) = sum over r of weights[i, r] * rows[r]; zeros up to whole panels.
struct WeighRows {
  float* out;  // [num_queries, head_dim in whole panels]
  const float* weights;
  int64_t weights_stride;
  int64_t num_queries;
  const void* const* rows;  // [count] rows of the cache, at most kValueChunk
  int64_t count;            // even but for the last rows of a tile
  int64_t head_dim;
  bool accumulate;  // go on from the sums in `out`
  void* scratch;
};

struct AttentionKernel {
  // dst[0..head_dim) = scale * q, in the form that `score` reads; needs no more room than floats.
  void (*pack_query)(float* dst, const float* q, float scale, int64_t head_dim);
  void (*score)(const ScorePanel&);
  void (*weigh)(const WeighRows&);
};

// Of bfloat16 products, which round queries and weights; what is null is computed in float.
extern const AttentionKernel kAttentionBf16Avx512[kNumKvTypes];

}  // namespace octavo::backends::cpu
