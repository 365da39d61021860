// What the tests of the chat template engine share: data files and the comparison with Python.
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/chat_template.h"

namespace octavo::tokenizer {

// The clock of tools/make_template_golden.py: 2025-07-06 09:05:03 UTC.
inline constexpr int64_t kNow = 1751792703;

inline const std::filesystem::path kTemplateData =
    std::filesystem::path(OCTAVO_TEST_DATA) / "chat-templates";

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string read_template(const std::string& name) {
  return read_text(kTemplateData / (name + ".jinja"));
}

inline Json read_json(const std::string& name) {
  auto parsed = parse_json(read_text(kTemplateData / name), name);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? std::move(parsed).value() : Json();
}

inline std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kTemplateData)) {
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string template_test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

// `expected` has "text", "raised" (raise_exception's message) or "error".
inline void expect_as_python(const Result<RenderedPrompt>& rendered, const Json& expected) {
  const JsonObject& fields = expected.as_object();
  if (const Json* text = fields.if_contains("text")) {
    ASSERT_TRUE(rendered.ok()) << rendered.status().message();
    EXPECT_EQ(rendered.value().text, std::string(to_view(text->as_string())));
    return;
  }
  ASSERT_FALSE(rendered.ok()) << "Python refuses this: " << dump_json(expected) << "\nrendered:\n"
                              << rendered.value().text;
  EXPECT_EQ(rendered.status().code(), StatusCode::kInvalidArgument);
  if (const Json* raised = fields.if_contains("raised")) {
    EXPECT_EQ(rendered.status().message(), std::string(to_view(raised->as_string())));
  } else {
    EXPECT_TRUE(rendered.status().message().starts_with("chat template:"))
        << rendered.status().message();
  }
}

// strftime_now shows local time: the golden files have UTC.
class UtcEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    setenv("TZ", "UTC0", 1);
    tzset();
  }
};
inline const testing::Environment* const kUtc =
    testing::AddGlobalTestEnvironment(new UtcEnvironment);

}  // namespace octavo::tokenizer
