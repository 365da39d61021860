// AttentionSpan: how far back a layer looks. Keys and values that lie before are never read again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace octavo::model {

// One of the two is set at most; 0: no such bound.
struct AttentionSpan {
  int64_t window = 0;  // the last so many positions, its own included
  int64_t chunk = 0;   // those of its own chunk, position / chunk

  bool operator==(const AttentionSpan&) const = default;
  bool bounded() const { return window > 0 || chunk > 0; }

  // The first position that the one at `position` sees.
  int64_t first_visible(int64_t position) const {
    if (chunk > 0) return position / chunk * chunk;
    return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  }

  // The most blocks that a sequence of up to `num_tokens` tokens holds at a time, if a step
  // computes at most `step_tokens` of them.
  int64_t peak_blocks(int64_t num_tokens, int64_t step_tokens, int64_t block_size) const {
    const auto blocks_for = [&](int64_t n) { return (n + block_size - 1) / block_size; };
    if (!bounded()) return blocks_for(num_tokens);
    // What is seen and what is computed need not begin with a block.
    return std::min(blocks_for(num_tokens), blocks_for(window + chunk + step_tokens) + 1);
  }
};

// The same for a sequence with a block table for each of `spans`.
inline int64_t peak_blocks(std::span<const AttentionSpan> spans, int64_t num_tokens,
                           int64_t step_tokens, int64_t block_size) {
  int64_t sum = 0;
  for (const AttentionSpan& span : spans) {
    sum += span.peak_blocks(num_tokens, step_tokens, block_size);
  }
  return sum;
}

}  // namespace octavo::model
