// Patterns in Ruby's syntax: what they mean here, and which are refused.
#include "tokenizer/regex.h"

#include <gtest/gtest.h>

#include <vector>

namespace octavo::tokenizer {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().message();
  std::vector<std::string> found;
  for (size_t from = 0; from <= text.size();) {
    const auto match = regex->find(text, from).value();
    if (!match) break;
    found.emplace_back(text.substr(match->begin, match->end - match->begin));
    from = match->end + (match->end == match->begin ? 1 : 0);
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST(Regex, WordsHoldMarks) {
  EXPECT_EQ(matches(R"(\w+)", "e\u0301a_\u203F1 x"), (Strings{"e\u0301a_\u203F1", "x"}));
  EXPECT_EQ(matches(R"([\w.]+)", "a\u0301.b!"), (Strings{"a\u0301.b"}));
  EXPECT_EQ(matches(R"(\W+)", "a\u0301 !b"), (Strings{" !"}));
}

TEST(Regex, LinesAndCodePoints) {
  EXPECT_EQ(matches("^a", "a\na"), (Strings{"a", "a"}));
  EXPECT_EQ(matches("a.", "a\nab"), (Strings{"ab"}));
  EXPECT_EQ(matches(R"([\u4e00-\u9fa5]+)", "x漢字x"), (Strings{"漢字"}));
  EXPECT_EQ(matches(R"(\p{N}+x)", "１2x"), (Strings{"１2x"}));
  EXPECT_EQ(matches(R"((?i:'s))", "'S'\u017F"), (Strings{"'S", "'\u017F"}));
  EXPECT_EQ(matches(R"([[:alpha:]]+[]x]?)", "ab]"), (Strings{"ab]"}));
  EXPECT_EQ(matches(R"(\\w)", R"(\w)"), (Strings{R"(\w)"}));
  EXPECT_EQ(matches(R"(a++|b?+b)", "aab"), (Strings{"aa"}));
}

TEST(Regex, WhatMeansSomethingElseIsRefused) {
  const char* const patterns[] = {"[a-z&&[b]]", "[a[bc]]",  R"(a{1,2}+)", R"(\h)",    R"(\R)",
                                  R"(\Ka)",     "(?m:a.b)", "(?x) a",     R"([\W_])", "a\\",
                                  R"(\p{L)",    "[[:alpha", "(*UCP)a"};
  for (const char* pattern : patterns) {
    EXPECT_EQ(Regex::compile(pattern).status().code(), StatusCode::kUnsupported) << pattern;
  }
  for (const char* pattern : {"(a", "[a", "*", R"((a)\1)", R"(\p{Klingon})", "(?<=a+)b", "\xFF"}) {
    EXPECT_EQ(Regex::compile(pattern).status().code(), StatusCode::kDataLoss) << pattern;
  }
  EXPECT_FALSE(Regex::compile(std::string(100'000, 'a')).ok());
  EXPECT_FALSE(Regex::compile(std::string(10'000, '(')).ok());
}

}  // namespace
}  // namespace octavo::tokenizer
