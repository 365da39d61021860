// What stays of the templates that callers give.
#include "tokenizer/template_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/format.h"

namespace octavo::tokenizer {
namespace {

using Template = std::shared_ptr<const ChatTemplate>;

std::string text_of(const Template& one) {
  return one->render(JsonObject{}, 0).value().text;
}

TEST(TemplateCache, KeepsWhatIsToBeKeptAndTheLastOther) {
  TemplateCache cache;
  const Template a = cache.get("a", true).value();
  const Template b = cache.get("b", true).value();
  std::weak_ptr<const ChatTemplate> previous;
  for (int i = 0; i < 200; ++i) {
    const std::string text = format("other {}", i);
    const Template other = cache.get(text, false).value();
    EXPECT_EQ(text_of(other), text);
    EXPECT_EQ(cache.get(text, false).value(), other);
    EXPECT_TRUE(previous.expired()) << i;
    EXPECT_EQ(cache.get("a", i % 2 == 0).value(), a);
    EXPECT_EQ(cache.get("b", true).value(), b);
    EXPECT_EQ(cache.get(text, false).value(), other);
    previous = other;
  }
  EXPECT_FALSE(previous.expired());
  EXPECT_EQ(text_of(a), "a");
  EXPECT_EQ(text_of(b), "b");
}

TEST(TemplateCache, ALastOneCanBeKept) {
  TemplateCache cache;
  const Template first = cache.get("x", false).value();
  EXPECT_EQ(cache.get("x", true).value(), first);
  cache.get("y", false).value();
  EXPECT_EQ(cache.get("x", false).value(), first);
}

TEST(TemplateCache, LargeOnesStayOnlyWhereTheyAreKept) {
  TemplateCache cache;
  const std::string large(1 << 20, 'x');
  std::weak_ptr<const ChatTemplate> given = cache.get(large, false).value();
  EXPECT_TRUE(given.expired());
  given = cache.get(large, true).value();
  EXPECT_FALSE(given.expired());
  EXPECT_EQ(cache.get(large, false).value(), given.lock());
}

TEST(TemplateCache, WhatDoesNotParseIsTheCallersFault) {
  TemplateCache cache;
  for (const bool keep : {true, false, true}) {
    const auto broken = cache.get("{% if", keep);
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(TemplateCache, ThreadsGetTheirOwn) {
  TemplateCache cache;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string text = format("template {}", (t + i) % 5);
        EXPECT_EQ(text_of(cache.get(text, i % 5 == 0).value()), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace octavo::tokenizer
