// Small templates, each with one rule of the language, against Python's Jinja2: results and errors.
#include <gtest/gtest.h>

#include "jinja_test_util.h"

namespace octavo::tokenizer {
namespace {

TEST(SnippetTest, RendersAsPython) {
  const Json snippets = read_json("snippets.json");
  const Json& variables = snippets.at("variables");
  const JsonArray& cases = snippets.at("cases").as_array();
  ASSERT_GE(cases.size(), 900u);
  for (const Json& snippet : cases) {
    const std::string_view source = to_view(snippet.at("template").as_string());
    SCOPED_TRACE(std::string(source));
    const auto parsed = ChatTemplate::parse(source);
    if (parsed.ok()) {
      expect_as_python(parsed.value().render(variables, kNow), snippet);
    } else {
      expect_as_python(parsed.status(), snippet);
    }
  }
}

}  // namespace
}  // namespace octavo::tokenizer
