#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace octavo::tokenizer {
namespace {

// Tokens spelled as the bytes they stand for.
Vocabulary make_vocabulary(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  for (const std::string& token : tokens) {
    vocabulary.text_tokens.push_back(static_cast<TokenId>(vocabulary.kinds.size()));
    vocabulary.kinds.push_back(TokenKind::kNormal);
    vocabulary.pieces.add(token);
    vocabulary.bytes.add(token);
  }
  return vocabulary;
}

struct RandomMerges {
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::map<std::pair<TokenId, TokenId>, MergeTable::Merge> by_pair;

  explicit RandomMerges(Rng& rng) {
    for (uint32_t rank = 0; rank < 40; ++rank) {
      const auto left = static_cast<TokenId>(rng.next_u64() % tokens.size());
      const auto right = static_cast<TokenId>(rng.next_u64() % tokens.size());
      const std::string text =
          tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
      const auto found = std::find(tokens.begin(), tokens.end(), text);
      const auto result = static_cast<TokenId>(found - tokens.begin());
      if (found == tokens.end()) tokens.push_back(text);
      by_pair.try_emplace({left, right}, MergeTable::Merge{rank, result});
    }
  }

  MergeTable table() const {
    MergeTable table(by_pair.size());
    for (const auto& [pair, merge] : by_pair) table.insert(pair.first, pair.second, merge);
    return table;
  }

  // By the definition: search all pairs for the lowest rank, merge the leftmost, start again.
  std::vector<TokenId> encode(std::string_view piece) const {
    std::vector<TokenId> ids;
    for (const char c : piece) ids.push_back(c - 'a');
    while (true) {
      MergeTable::Merge best;
      size_t at = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = by_pair.find({ids[i], ids[i + 1]});
        if (found != by_pair.end() && found->second.rank < best.rank) {
          best = found->second;
          at = i;
        }
      }
      if (best.rank == MergeTable::kNoRank) return ids;
      ids[at] = best.result;
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
  }
};

TEST(Bpe, AgreesWithTheDefinition) {
  Rng rng(7);
  size_t merged_pieces = 0;
  for (int round = 0; round < 300; ++round) {
    const RandomMerges merges(rng);
    const Vocabulary vocabulary = make_vocabulary(merges.tokens);
    const BpeModel model(vocabulary, merges.table(), {});
    BpeModel::Workspace workspace;
    for (int i = 0; i < 40; ++i) {
      std::string piece;
      for (uint64_t n = rng.next_u64() % 40; n > 0; --n) {
        piece += static_cast<char>('a' + rng.next_u64() % 3);
      }
      std::vector<TokenId> ids;
      model.encode(piece, workspace, ids);
      ASSERT_EQ(ids, merges.encode(piece)) << piece;
      merged_pieces += ids.size() < piece.size();
    }
  }
  EXPECT_GT(merged_pieces, 5000u);
}

TEST(Bpe, LeftmostOfEqualRanks) {
  const Vocabulary vocabulary = make_vocabulary({"a", "aa"});
  MergeTable merges(1);
  merges.insert(0, 0, {0, 1});
  const BpeModel model(vocabulary, std::move(merges), {});
  BpeModel::Workspace workspace;
  std::vector<TokenId> ids;
  model.encode("aaaaa", workspace, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 1, 0}));
}

TEST(Bpe, WholePieceWinsOnlyWhenMergesAreIgnored) {
  // "abc" is a token that no merge makes.
  const Vocabulary vocabulary = make_vocabulary({"a", "b", "c", "ab", "abc"});
  for (const bool ignore_merges : {false, true}) {
    MergeTable merges(1);
    merges.insert(0, 1, {0, 3});
    const BpeModel model(vocabulary, std::move(merges), {.ignore_merges = ignore_merges});
    BpeModel::Workspace workspace;
    std::vector<TokenId> ids;
    model.encode("abc", workspace, ids);
    EXPECT_EQ(ids, ignore_merges ? std::vector<TokenId>{4} : (std::vector<TokenId>{3, 2}));
  }
}

TEST(Bpe, LeavesOutBytesWithoutToken) {
  const Vocabulary vocabulary = make_vocabulary({"a", "aa"});
  MergeTable merges(1);
  merges.insert(0, 0, {0, 1});
  const BpeModel model(vocabulary, std::move(merges), {});
  EXPECT_EQ(model.missing_bytes(), 255);
  BpeModel::Workspace workspace;
  std::vector<TokenId> ids;
  model.encode("x", workspace, ids);
  EXPECT_TRUE(ids.empty());
  model.encode("axa", workspace, ids);  // as Hugging Face: the neighbours meet
  EXPECT_EQ(ids, (std::vector<TokenId>{1}));
  model.encode("", workspace, ids);
  EXPECT_EQ(ids.size(), 1u);
}

TEST(Bpe, LowerRankOfAPairGivenTwiceStays) {
  MergeTable merges(2);
  merges.insert(0, 0, {3, 1});
  merges.insert(0, 0, {9, 2});
  EXPECT_EQ(merges.find(0, 0).rank, 3u);
  EXPECT_EQ(merges.find(0, 1).rank, MergeTable::kNoRank);
}

}  // namespace
}  // namespace octavo::tokenizer
