// What a launch tells a prefill kernel, whichever it is; and how the kernels number their tiles.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backends/cuda/attention_work.h"
#include "backends/cuda/tile/attention_mask.h"

namespace octavo::backends::cuda {

// How products of queries and keys become exponents of 2.
struct ScoreScale {
  float max_growth;  // of a row's maximum before it is taken on, in units of raw scores
  float log2;        // of scores
  float softcap;     // tanh's argument for a score of 1
};

// Weights of up to 2^8 are as exact as those below 1.
inline constexpr float kMaxGrowthLog2 = 8.0f;

struct PrefillParams {
  __nv_bfloat16* out;
  float* lse;
  WorkList* list;
  const float* sinks;
  const int32_t* block_table;  // null: contiguous
  int64_t block_table_stride;
  int num_tokens;
  int num_heads;
  int num_kv_heads;
  int num_blocks;
  int block_size_log2;
  int pack_log2;
  int units;  // of `pack` query heads
  int units_per_kv_head;
  ScoreScale score;
  bool softcap;
  AttentionMask mask;
  const float* k_scale;  // null: 1
  const float* v_scale;
  int scale_stride;
};

// The scale of scores where stored keys stand for k_scale times their value.
OCTAVO_HOST_DEVICE inline ScoreScale scaled(const ScoreScale& score, bool softcap, float k_scale) {
  ScoreScale result = score;
  if (softcap) {
    result.softcap *= k_scale;
    return result;
  }
  constexpr float kMostGrowth = 1e30f;  // finite: infinity minus infinity is no growth
  result.log2 *= k_scale;
  result.max_growth = kMaxGrowthLog2 / result.log2;
  if (!(result.max_growth < kMostGrowth)) result.max_growth = kMostGrowth;
  return result;
}

struct TilePlace {
  int item, unit;
};

// Tiles go by section of heads, then by item.
OCTAVO_HOST_DEVICE inline TilePlace tile_place(const PrefillParams& params, int tile) {
  const int section_units = params.list->section_kv_heads * params.units_per_kv_head;
  const int section = tile / (params.list->num_items * section_units);
  tile -= section * params.list->num_items * section_units;
  const int item = tile / section_units;
  return {item, section * section_units + tile - item * section_units};
}

}  // namespace octavo::backends::cuda
