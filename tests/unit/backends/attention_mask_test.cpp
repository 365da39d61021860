// Masks and block ranges against the sentence that defines them, over all small shapes and random
// larger ones.
#include "backends/cuda/tile/attention_mask.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace octavo::backends::cuda {
namespace {

bool sees(const AttentionMask& mask, int position, int key, int num_keys) {
  if (key < 0 || key >= num_keys) return false;
  if (mask.window_right >= 0 && key > position + mask.window_right) return false;
  if (mask.window_left >= 0 && key < position - mask.window_left) return false;
  return mask.chunk <= 0 || position < 0 || key >= position / mask.chunk * mask.chunk;
}

void check_tile(const AttentionMask& mask, int first, int last, int num_keys, int block_keys) {
  SCOPED_TRACE(testing::Message() << "window " << mask.window_left << ":" << mask.window_right
                                  << " chunk " << mask.chunk << " positions " << first << ".."
                                  << last << " keys " << num_keys << " block " << block_keys);
  const BlockRange range = block_range(mask, first, last, num_keys, block_keys);
  ASSERT_LE(range.left + range.right, range.end - range.begin);
  ASSERT_GE(range.left, 0);
  ASSERT_GE(range.right, 0);
  const int num_blocks = num_keys / block_keys + 2;
  ASSERT_LE(range.end, num_blocks);
  for (int block = 0; block < num_blocks; ++block) {
    bool any = false, all = true;
    for (int key = block * block_keys; key < (block + 1) * block_keys; ++key) {
      for (int position = first; position <= last; ++position) {
        const bool seen = sees(mask, position, key, num_keys);
        const bool computed =
            key >= lowest_key(mask, position) && key <= highest_key(mask, position, num_keys);
        ASSERT_EQ(seen, computed) << "position " << position << " key " << key;
        any = any || seen;
        all = all && seen;
      }
    }
    const bool visited = block >= range.begin && block < range.end;
    ASSERT_TRUE(visited || !any) << "block " << block << " is not visited";
    const bool masked = block < range.begin + range.left || block >= range.end - range.right;
    ASSERT_TRUE(!visited || masked || all) << "block " << block << " is not masked";
    // No more than one block on each side is visited or masked in vain.
    if (visited && masked && all) {
      ADD_FAILURE() << "block " << block << " is masked in vain";
    }
  }
}

TEST(AttentionMask, CausalAndFull) {
  for (const int window_right : {-1, 0}) {
    AttentionMask mask;
    mask.window_right = window_right;
    for (int num_keys = 0; num_keys < 20; ++num_keys) {
      for (int first = num_keys - 12; first < num_keys; ++first) {
        for (int last = first; last < num_keys; ++last) check_tile(mask, first, last, num_keys, 4);
      }
    }
  }
}

TEST(AttentionMask, RandomWindowsAndChunks) {
  Rng rng(7);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(rng.next_u64() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 3000; ++i) {
    AttentionMask mask;
    mask.window_left = draw(0, 1) ? draw(0, 90) : -1;
    mask.window_right = draw(0, 2) ? 0 : draw(-1, 30);
    if (mask.window_right == 0 && draw(0, 1)) mask.chunk = draw(1, 100);
    const int num_keys = draw(1, 150);
    const int last = num_keys - 1 - draw(0, num_keys - 1) / 2;
    const int first = last - draw(0, 31);
    check_tile(mask, first, last, num_keys, draw(0, 1) ? 16 : 10);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
