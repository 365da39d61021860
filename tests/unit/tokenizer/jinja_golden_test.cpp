// Renders all templates with all conversations and compares with what Python's Jinja2 makes of them
// (tools/make_template_golden.py), errors included.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "jinja_test_util.h"

namespace octavo::tokenizer {
namespace {

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, RendersAsPython) {
  const auto parsed = ChatTemplate::parse(read_template(GetParam()));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Json conversations = read_json("conversations.json");
  const Json golden = read_json("golden/" + GetParam() + ".json");
  ASSERT_GE(golden.as_object().size(), 40u);
  for (const auto& entry : golden.as_object()) {
    const Json& expected = entry.value();
    SCOPED_TRACE(std::string(entry.key()));
    const Json* variables = json_find(conversations, std::string_view(entry.key()));
    ASSERT_NE(variables, nullptr);
    expect_as_python(parsed.value().render(*variables, kNow), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, GoldenTest, testing::ValuesIn(template_names()),
                         template_test_name);

TEST(GoldenTest, ThereAre48Templates) {
  EXPECT_EQ(template_names().size(), 48u);
}

}  // namespace
}  // namespace octavo::tokenizer
