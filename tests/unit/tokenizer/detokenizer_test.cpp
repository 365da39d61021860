#include "tokenizer/detokenizer.h"

#include <algorithm>

#include "base/rng.h"
#include "base/utf8.h"
#include "test_data.h"

namespace octavo::tokenizer {
namespace {

std::string stream(const std::vector<TokenId>& ids, bool show_special) {
  Detokenizer detokenizer(gpt2_tokenizer(), show_special);
  std::string text;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.push(id);
    EXPECT_TRUE(utf8_is_valid(part));
    text += part;
  }
  return text + detokenizer.flush();
}

TEST(Detokenizer, StreamIsTheWholeTextForRandomIds) {
  Rng rng(11);
  const Tokenizer& tokenizer = gpt2_tokenizer();
  for (int round = 0; round < 4000; ++round) {
    std::vector<TokenId> ids;
    for (uint64_t n = rng.next_u64() % 12; n > 0; --n) {
      // The first 256 ids are single bytes: many sequences that are not UTF-8.
      const uint64_t range = rng.next_u64() % 4 == 0 ? tokenizer.vocab_size() : 256;
      ids.push_back(static_cast<TokenId>(rng.next_u64() % range));
    }
    for (const bool show_special : {false, true}) {
      ASSERT_EQ(stream(ids, show_special), tokenizer.decode(ids, show_special).value());
    }
  }
}

TEST(Detokenizer, HoldsACharacterUntilItIsWhole) {
  const auto ids = gpt2_tokenizer().encode("\xF0\x9F\xAB\xA0", kPlainText).value();
  ASSERT_GT(ids.size(), 1u);
  Detokenizer detokenizer(gpt2_tokenizer());
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(detokenizer.push(ids[i]), "");
  EXPECT_EQ(detokenizer.push(ids.back()), "\xF0\x9F\xAB\xA0");
  EXPECT_EQ(detokenizer.flush(), "");
  detokenizer.push(ids[0]);
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.flush(), "");
}

struct Stopped {
  std::string shown;
  std::optional<size_t> which;
  bool operator==(const Stopped&) const = default;
};

// By the definition: the first end of a stop string behind `passed_over` bytes, of several there
// the longest.
Stopped naive(const std::string& text, const std::vector<std::string>& stops, size_t passed_over) {
  for (size_t end = passed_over + 1; end <= text.size(); ++end) {
    std::optional<size_t> which;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      if (!which || stops[i].size() > stops[*which].size()) which = i;
    }
    if (which) return {text.substr(0, end - stops[*which].size()), which};
  }
  return {text, std::nullopt};
}

TEST(StopStringFilter, AgreesWithASearchOfTheWholeTextHoweverItIsCut) {
  Rng rng(5);
  size_t stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto random_text = [&](uint64_t most) {
      std::string text;
      for (uint64_t n = rng.next_u64() % (most + 1); n > 0; --n) {
        text += static_cast<char>('a' + rng.next_u64() % 2);
      }
      return text;
    };
    std::vector<std::string> stops;
    for (uint64_t n = rng.next_u64() % 4; n > 0; --n) stops.push_back(random_text(6));
    const std::string text = random_text(30);
    const size_t begin = rng.next_u64() % 2 == 0 ? 0 : rng.next_u64() % 10;
    size_t passed_over = 0;  // of text, the pieces that begin before `begin`
    StopStringFilter filter(stops);
    Stopped result;
    for (size_t pos = 0; pos < text.size();) {
      const size_t size = std::min<size_t>(rng.next_u64() % 5, text.size() - pos);
      const bool was_stopped = filter.matched().has_value();
      const bool may_stop = pos >= begin;
      if (!may_stop) passed_over = pos + size;
      const std::string part = filter.push(std::string_view(text).substr(pos, size), may_stop);
      EXPECT_TRUE(!was_stopped || part.empty());
      result.shown += part;
      pos += size;
    }
    result.shown += filter.flush();
    result.which = filter.matched();
    ASSERT_EQ(result, naive(text, stops, passed_over)) << text;
    stopped += result.which.has_value();
  }
  EXPECT_GT(stopped, 5000u);
}

TEST(StopStringFilter, ShowsWhatCanNoLongerBeAStopString) {
  StopStringFilter filter({"</s>", "\n\n"});
  EXPECT_EQ(filter.push("one<"), "one");
  EXPECT_EQ(filter.push("/"), "");
  EXPECT_EQ(filter.push("b>\n"), "</b>");
  EXPECT_EQ(filter.push("two</s"), "\ntwo");
  EXPECT_FALSE(filter.matched());
  EXPECT_EQ(filter.push("></s>more"), "");
  EXPECT_EQ(filter.matched(), 0u);
  EXPECT_EQ(filter.push("\n\n"), "");
  EXPECT_EQ(filter.flush(), "");
  EXPECT_EQ(filter.matched(), 0u);
}

TEST(StopStringFilter, KeepsCharactersWhole) {
  StopStringFilter filter({"é!"});
  EXPECT_EQ(filter.push("aê"), "aê");  // shares a first byte with é
  EXPECT_EQ(filter.push("é"), "");
  EXPECT_EQ(filter.push("?"), "é?");
}

TEST(StopStringFilter, WithoutStopStringsPassesEverything) {
  StopStringFilter filter({""});
  EXPECT_EQ(filter.push("abc"), "abc");
  EXPECT_EQ(filter.push(""), "");
  EXPECT_FALSE(filter.matched());
}

}  // namespace
}  // namespace octavo::tokenizer
