#include "backends/cpu/fine_blocks.h"

#include <algorithm>
#include <cmath>

#include "ops/blocks.h"

namespace octavo::backends::cpu {
namespace {

using ops::kBlockValues;

// SmolLM2-135M, rows of 18 blocks: of the error's square one block leaves 30 to 60 %, three leave
// 15 to 30 %.
constexpr int64_t kBlocksPerFine = 16;

// Of the blocks that are not fine the one with the largest scale; null where all are zero or no
// numbers.
QuantizedBlock* largest(QuantizedBlock* row, int64_t blocks) {
  QuantizedBlock* result = nullptr;
  float scale = 0;
  for (QuantizedBlock* block = row; block != row + blocks; ++block) {
    if (block->fine < 0 && block->scale > scale) {
      scale = block->scale;
      result = block;
    }
  }
  return result;
}

// x is the block's; it must have a value of kLeastMagnitude.
void refine(QuantizedBlock& block, QuantizedBlock& upper, const float* x,
            const Int8Kernel& kernel) {
  float top = 0;
  for (int i = 0; i < kBlockValues; ++i) top = std::max(top, std::fabs(x[i]));
  // A power of two above what `block` was rounded with, so that its codes are the upper ones.
  const float inverse = kUpperStep * (127.0f / top);
  int32_t sums[2] = {};
  for (int i = 0; i < kBlockValues; ++i) {
    const auto code = static_cast<int32_t>(std::nearbyintf(x[i] * inverse));
    upper.codes[i] = block.codes[i];
    block.codes[i] = static_cast<int8_t>(code - kUpperStep * upper.codes[i]);
    sums[i * kernel.parts / kBlockValues] += code;
  }
  block.scale /= kUpperStep;
  for (int p = 0; p < 2; ++p) {
    block.sums[p] = block.scale * static_cast<float>(sums[p]);
    block.corrections[p] = -kernel.zero * sums[p];
  }
  block.fine = static_cast<int32_t>(&upper - &block);
}

// How far it is to the next fine block.
void mark_distances(QuantizedBlock* row, int64_t blocks) {
  int32_t distance = kNoneFine;
  for (int64_t b = blocks - 1; b >= 0; --b) {
    distance = row[b].fine > 0 ? 0 : std::max(kNoneFine, distance - 1);
    if (distance < 0) row[b].fine = distance;
  }
}

}  // namespace

int64_t num_fine_blocks(int64_t blocks) {
  return std::max<int64_t>(1, blocks / kBlocksPerFine);
}

void refine_largest(QuantizedBlock* row, const float* x, int64_t blocks, int64_t count,
                    const Int8Kernel& kernel) {
  for (int64_t i = 0; i < count; ++i) {
    QuantizedBlock* block = largest(row, blocks);
    if (block == nullptr || block->scale * 127 < kLeastMagnitude) break;
    refine(*block, row[blocks + i], x + (block - row) * kBlockValues, kernel);
  }
  if (count > 0) mark_distances(row, blocks);
}

}  // namespace octavo::backends::cpu
