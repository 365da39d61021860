#include <gtest/gtest.h>

#include "base/json.h"
#include "octavo/tokenizer.h"

namespace octavo {
namespace {

TEST(ToMessagesJson, KeepsEveryTextAndItsOrder) {
  const Message messages[] = {{"system", "a \"quoted\" \\ line\nand\ttab"},
                              {"user", std::string("\x00\x1f{}[]</s>", 9)},
                              {"assistant", "Grüße, 世界 🦙"},
                              {"user", ""}};
  const Json parsed = parse_json(to_messages_json(messages), "messages").value();
  const JsonArray& array = parsed.as_array();
  ASSERT_EQ(array.size(), 4u);
  for (size_t i = 0; i < array.size(); ++i) {
    EXPECT_EQ(array[i].as_object().size(), 2u);
    EXPECT_EQ(to_view(array[i].at("role").as_string()), messages[i].role);
    EXPECT_EQ(to_view(array[i].at("content").as_string()), messages[i].content);
  }
}

TEST(ToMessagesJson, OfNothingAndOfBytesThatAreNoText) {
  EXPECT_EQ(to_messages_json({}), "[]");
  const Message broken[] = {{"user", "a\xFF\xC3"}};
  EXPECT_EQ(to_messages_json(broken), "[{\"role\":\"user\",\"content\":\"a\uFFFD\uFFFD\"}]");
}

}  // namespace
}  // namespace octavo
