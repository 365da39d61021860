// Which keys a query sees, and which blocks of keys a tile of queries must visit. Plain C++: the
// kernels and the tests on a CPU use the same lines.
//
// The query at position p (its index among the sequence's keys; the last query sits at the last
// key) sees the keys lowest_key(p) .. highest_key(p). With more queries than keys the first
// positions are negative and, under a causal mask, see nothing.
#pragma once

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

struct AttentionMask {
  int window_left = -1;   // keys before the query's own that it sees; -1: all
  int window_right = -1;  // keys after it; -1: all, 0: causal
  int chunk = 0;          // > 0: only keys of the query's own chunk of positions (causal masks)
};

OCTAVO_HOST_DEVICE constexpr int highest_key(const AttentionMask& mask, int position,
                                             int num_keys) {
  const int last = num_keys - 1;
  if (mask.window_right < 0 || position > last - mask.window_right) return last;
  return position + mask.window_right;
}

OCTAVO_HOST_DEVICE constexpr int lowest_key(const AttentionMask& mask, int position) {
  int lowest = 0;
  if (mask.window_left >= 0 && position > mask.window_left) lowest = position - mask.window_left;
  if (mask.chunk > 0 && position > 0) {
    const int start = position - position % mask.chunk;
    if (start > lowest) lowest = start;
  }
  return lowest;
}

// Blocks begin .. end - 1 hold all that the tile sees. Of them the first `left` and the last
// `right` (together at most all) hold keys that some query of the tile does not see.
struct BlockRange {
  int begin = 0;
  int end = 0;
  int left = 0;
  int right = 0;
};

// The tile's queries sit at positions first .. last; a block is `block_keys` keys.
OCTAVO_HOST_DEVICE constexpr BlockRange block_range(const AttentionMask& mask, int first, int last,
                                                    int num_keys, int block_keys) {
  const int highest = highest_key(mask, last, num_keys);
  const int lowest = lowest_key(mask, first);
  if (highest < lowest) return {};
  BlockRange range;
  range.begin = lowest / block_keys;
  range.end = highest / block_keys + 1;
  const int seen_by_all_end = highest_key(mask, first, num_keys) + 1;  // may be 0 or less
  const int whole_end = seen_by_all_end > 0 ? seen_by_all_end / block_keys : 0;
  const int whole_begin = (lowest_key(mask, last) + block_keys - 1) / block_keys;
  const int count = range.end - range.begin;
  range.right = whole_end >= range.end ? 0 : range.end - whole_end;
  range.left = whole_begin <= range.begin ? 0 : whole_begin - range.begin;
  if (range.right > count) range.right = count;
  if (range.left > count - range.right) range.left = count - range.right;
  return range;
}

}  // namespace octavo::backends::cuda
