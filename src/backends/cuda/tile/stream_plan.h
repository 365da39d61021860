// How a product of few tokens is spread over multiprocessors: blocks take tiles of 16 rows of the
// matrix; the blocks of a cluster share each tile, every one having its slice of in_features, for
// which it keeps the input in shared memory. Plain C++, tested on the CPU.
//
// The order of a sum follows from `cluster`, which depends on the shape of the matrices, on the
// number of token blocks and on the GPU, and on nothing else.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cuda/tile/int4_tiles.h"

namespace octavo::backends::cuda {

inline constexpr int kStreamRows = 16;        // of a tile
inline constexpr int kStreamRowBytes = 1024;  // of a row in a step, 128 for each warp
inline constexpr int kStreamStepBytes = kStreamRows * kStreamRowBytes;
inline constexpr int kStreamWarps = 8;  // that multiply
// With a ring of 4 steps in place of two blocks with longer ones, 16 tokens of 4,096 features are
// 10 % slower (H200); with 8 for 14,336 features there are four blocks, and 8 tokens take 5 %
// longer.
inline constexpr int kStreamMinRing = 5;
inline constexpr int kStreamMaxRing = 12;
inline constexpr int kStreamMaxCluster = 8;
inline constexpr int kStreamTokens = 8;  // of a token block

// What a step holds of a tile and of a token's input.
struct StreamForm {
  int columns = 0;
  int step_bytes = kStreamStepBytes;  // of the tile's rows
  int input_bytes = kStreamRowBytes;  // of the token
  int sum_bytes = 0;                  // of sums of these
};

inline constexpr StreamForm kStreamBF16 = {.columns = kStreamRowBytes / 2};
inline constexpr StreamForm kStreamE4M3 = {.columns = kStreamRowBytes};

// Of 4-bit codes (int4_tiles.h): a piece for each warp of each half tile; the input is bfloat16,
// and of its values in a group there is the sum.
constexpr StreamForm stream_int4(int group) {
  const int columns = kStreamWarps * kInt4Columns;
  const Int4Tiles tiles = {.rows = kStreamRows, .cols = columns, .group = group};
  return {columns, static_cast<int>(tiles.bytes()), 2 * columns, 4 * columns / group};
}

struct StreamPlan {
  int cluster = 0;      // blocks that share a tile: a power of two; 0: the product does not fit
  int steps = 0;        // of all in_features
  int ring = 0;         // steps that are in shared memory at a time
  int input_pitch = 0;  // bytes from one token's input to the next there
};

// `shared_bytes`: for the ring and the input of up to token_blocks * kStreamTokens tokens.
constexpr StreamPlan plan_stream(int num_tiles, int in_features, const StreamForm& form,
                                 int token_blocks, int multiprocessors, int shared_bytes) {
  StreamPlan best;
  best.steps = (in_features - 1) / form.columns + 1;
  int64_t best_cost = 0;
  for (int cluster = 1; cluster <= std::min(kStreamMaxCluster, best.steps); cluster *= 2) {
    const int64_t slice = (best.steps - 1) / cluster + 1;
    const int64_t pitch = slice * form.input_bytes + 64;  // two tokens begin at different banks
    const int64_t input_bytes = token_blocks * kStreamTokens * (pitch + slice * form.sum_bytes);
    const int64_t ring = (shared_bytes - input_bytes) / form.step_bytes;
    if (ring < kStreamMinRing) continue;
    // Steps of the busiest block. A cluster's sums cost about as much as half a step.
    const int clusters = std::max(1, multiprocessors / cluster);
    const int64_t rounds = (num_tiles - 1) / clusters + 1;
    const int64_t cost = rounds * (2 * slice + (cluster > 1 ? 1 : 0));
    if (best.cluster != 0 && cost >= best_cost) continue;
    best_cost = cost;
    best.cluster = cluster;
    best.ring = static_cast<int>(std::min<int64_t>(ring, kStreamMaxRing));
    best.input_pitch = static_cast<int>(pitch);
  }
  return best;
}

}  // namespace octavo::backends::cuda
