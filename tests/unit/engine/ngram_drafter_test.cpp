// Prompt lookup against a search of the whole text, and what a drafter is to do at the edges.
#include "engine/ngram_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace octavo::engine {
namespace {

int64_t search_all(const std::vector<TokenId>& tokens, int64_t least, int64_t most) {
  const auto size = static_cast<int64_t>(tokens.size());
  for (int64_t length = std::min(most, size - 1); length >= least; --length) {
    for (int64_t end = size - 1; end >= length; --end) {
      if (std::equal(tokens.end() - length, tokens.end(), tokens.begin() + end - length)) {
        return end;
      }
    }
  }
  return 0;
}

TEST(NgramIndex, FindsWhatASearchOfAllFinds) {
  Rng rng(1);
  int num_found = 0;
  for (int round = 0; round < 300; ++round) {
    const auto least = static_cast<int64_t>(1 + rng.next_u64() % 3);
    const auto most = least + static_cast<int64_t>(rng.next_u64() % 4);
    NgramIndex index(least, most);
    std::vector<TokenId> tokens;
    while (tokens.size() < 60) {
      // In pieces: it is asked after several tokens, too.
      for (uint64_t i = rng.next_u64() % 4; i > 0; --i) {
        tokens.push_back(static_cast<TokenId>(rng.next_u64() % 5));
      }
      if (tokens.empty()) continue;
      const int64_t found = index.find(tokens);
      ASSERT_EQ(found, search_all(tokens, least, most)) << "round " << round;
      num_found += found > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(num_found, 1000);
}

std::vector<TokenId> draft(NgramDrafter& drafter, Sequence& sequence, int64_t num_tokens) {
  sequence.draft_token_ids.clear();
  const DraftRequest request{&sequence, num_tokens};
  EXPECT_TRUE(drafter.propose({&request, 1}).ok());
  return sequence.draft_token_ids;
}

TEST(NgramDrafter, DraftsWhatFollowedAndGoesRound) {
  NgramDrafter drafter(2, 4);
  Sequence sequence;
  sequence.token_ids = {1, 2, 3, 4, 5, 9, 2, 3};
  EXPECT_EQ(draft(drafter, sequence, 2), (std::vector<TokenId>{4, 5}));
  EXPECT_EQ(draft(drafter, sequence, 7), (std::vector<TokenId>{4, 5, 9, 2, 3, 4, 5}));
  sequence.token_ids.insert(sequence.token_ids.end(), {4, 7, 9, 2, 3});  // 9 2 3 is longer
  EXPECT_EQ(draft(drafter, sequence, 2), (std::vector<TokenId>{4, 7}));
  sequence.token_ids.insert(sequence.token_ids.end(), {8, 8});
  EXPECT_TRUE(draft(drafter, sequence, 3).empty());
  sequence.token_ids.push_back(8);
  EXPECT_EQ(draft(drafter, sequence, 3), (std::vector<TokenId>{8, 8, 8}));
}

TEST(NgramDrafter, ShortTextsAndForgottenSequences) {
  NgramDrafter drafter(3, 3);
  Sequence sequence;
  for (const TokenId id : {5, 5, 5}) {
    sequence.token_ids.push_back(id);
    EXPECT_TRUE(draft(drafter, sequence, 4).empty());
  }
  drafter.forget(sequence);
  sequence.token_ids = {5};  // another one that lies where the first did
  EXPECT_TRUE(draft(drafter, sequence, 4).empty());
  drafter.forget(sequence);
  drafter.forget(sequence);
}

}  // namespace
}  // namespace octavo::engine
