// How many drafts pay, and how often it is looked whether they pay again.
#include "engine/draft_length.h"

#include <gtest/gtest.h>

#include <vector>

namespace octavo::engine {
namespace {

constexpr double kThreshold = 0.4;
constexpr int64_t kMost = 8;

// How many steps without a guess come before the next one, which is left to be observed.
int64_t zeros_before_a_probe(DraftLength& length) {
  int64_t zeros = 0;
  while (zeros < 1000 && length.next(kThreshold, kMost) == 0) ++zeros;
  return zeros;
}

TEST(DraftLength, WrongGuessesBecomeFewerAndThenRare) {
  DraftLength length;
  // 0.7 by 3/4 and by 3/4 is below the threshold; these two cost no patience.
  for (const int64_t expected : {2, 1}) {
    EXPECT_EQ(length.next(kThreshold, kMost), expected);
    length.observe(expected, 0);
  }
  std::vector<int64_t> zeros;
  for (int i = 0; i < 6; ++i) {
    zeros.push_back(zeros_before_a_probe(length));
    length.observe(1, 0);
  }
  EXPECT_EQ(zeros, (std::vector<int64_t>{4, 8, 16, 32, 64, 64}));
}

TEST(DraftLength, AProbeThatIsRightEndsTheWaiting) {
  DraftLength length;
  while (length.next(kThreshold, kMost) > 0) length.observe(1, 0);
  for (int i = 0; i < 4; ++i) {
    zeros_before_a_probe(length);
    length.observe(1, 0);
  }
  zeros_before_a_probe(length);
  length.observe(1, 1);
  EXPECT_EQ(zeros_before_a_probe(length), 4);
  for (int i = 0; i < 2; ++i) length.observe(1, 1);
  EXPECT_GT(length.next(kThreshold, kMost), 0);
}

TEST(DraftLength, RightGuessesBecomeAsManyAsAreAllowed) {
  DraftLength length;
  for (int i = 0; i < 20; ++i) length.observe(2, 2);
  EXPECT_EQ(length.next(kThreshold, kMost), kMost);
  EXPECT_EQ(length.next(kThreshold, 3), 3);
  EXPECT_EQ(length.next(1.0, kMost), 0);
}

}  // namespace
}  // namespace octavo::engine
