// The list of work of a ragged attention call, made on the device: one item a tile of queries,
// longest first, so that the blocks that take items as they come finish together. All items are
// gone through for a section of the heads, then for the next: as many heads as keep their keys and
// values in the L2 cache.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/tile/attention_mask.h"
#include "backends/cuda/tile/attention_sections.h"

namespace octavo::backends::cuda {

struct WorkItem {
  int q_row;       // of the tile's first query, in the batch
  int num_tokens;  // queries of the tile
  int position;    // of the first query among the keys; negative with more queries than keys
  int num_keys;    // of the sequence
  int kv_row;      // contiguous: its first key; paged: its row of the block table
  int begin, end;  // blocks of keys to visit
  int masked;      // BlockRange::left in the low half, BlockRange::right in the high half
};
static_assert(sizeof(WorkItem) == 32);

// `ticket` hands out items: it wraps around by itself at the end of a launch, so that nothing needs
// to reset it between launches with the same list.
struct alignas(32) WorkList {
  uint32_t ticket;
  int num_items;
  int section_kv_heads;  // divides their number
  // WorkItem items[] follows.

  OCTAVO_HOST_DEVICE const WorkItem* items() const {
    return reinterpret_cast<const WorkItem*>(this + 1);
  }
  OCTAVO_HOST_DEVICE WorkItem* items() { return reinterpret_cast<WorkItem*>(this + 1); }
};
static_assert(sizeof(WorkList) == 32);

struct WorkListArgs {
  const int32_t* cu_seqlens_q;  // [num_seqs + 1]
  const int32_t* cu_seqlens_k;  // [num_seqs + 1], or null: seq_lens counts
  const int32_t* seq_lens;      // [num_seqs]
  int num_seqs;
  int max_items;    // what the list has room for
  int tile_tokens;  // queries of a tile
  int block_keys;
  int num_kv_heads;
  int units_per_kv_head;  // tiles of an item in a key/value head
  int kv_bytes;           // of a token's key and value in one head
  AttentionMask mask;
};

// At most so many items, whatever the lengths.
constexpr int64_t max_work_items(int64_t num_tokens, int64_t num_seqs, int64_t tile_tokens) {
  return num_tokens / tile_tokens + num_seqs;
}

cudaError_t launch_work_list(WorkList* list, const WorkListArgs& args, cudaStream_t stream);

}  // namespace octavo::backends::cuda
