// In which portions of heads a list of attention tiles is gone through. Plain C++, tested on a CPU.
#pragma once

#include <cstdint>

#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {

// How many key/value heads a section has: as many as keep the keys and values of all sequences in
// half of the L2 cache (its halves keep copies of what the other reads often), but so many that a
// section's tiles go round the GPU several times, or its longest tile would be waited for.
OCTAVO_HOST_DEVICE constexpr int section_kv_heads(int num_kv_heads, int units_per_kv_head,
                                                  int num_items, int num_keys, int kv_bytes) {
  constexpr int kSectionBytes = 32 << 20;
  constexpr int kLeastTiles = 1024;  // sections of 256 cost hd256 13 % on an H200
  const int most_keys = kSectionBytes / kv_bytes;
  int best = num_kv_heads;
  for (int heads = num_kv_heads; heads > 0 && num_keys > most_keys / best; --heads) {
    if (num_kv_heads % heads != 0) continue;
    if (int64_t{num_items} * units_per_kv_head * heads < kLeastTiles) break;
    best = heads;
  }
  return best;
}

}  // namespace octavo::backends::cuda
