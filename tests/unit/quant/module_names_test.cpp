// Names and patterns of modules. What patterns match is what Python's re.match says.
#include "quant/module_names.h"

#include <gtest/gtest.h>

namespace octavo::quant {
namespace {

TEST(ModuleNames, WholePartsOnly) {
  EXPECT_TRUE(names_module("lm_head", "lm_head"));
  EXPECT_TRUE(names_module("gate", "model.layers.0.mlp.gate"));
  EXPECT_TRUE(names_module("mlp.gate", "model.layers.0.mlp.gate"));
  EXPECT_TRUE(names_module("model.layers.0", "model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(names_module("gate", "model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(names_module("layers.1", "model.layers.10.mlp.up_proj"));
  EXPECT_FALSE(names_module("", "lm_head"));
  EXPECT_FALSE(names_module("lm_head.x", "lm_head"));
}

struct PatternCase {
  const char* pattern;
  const char* text;
  bool matches;
};
const PatternCase kPatterns[] = {
    {".*lm_head", "lm_head", true},
    {".*lm_head", "model.lm_head.x", true},
    {"lm_head", "model.lm_head", false},
    {".*mlp.gate$", "model.layers.0.mlp.gate", true},
    {".*mlp.gate$", "model.layers.0.mlp.gate_proj", false},
    {".*self_attn", "model.layers.3.self_attn.q_proj", true},
    {"model\\.layers\\.\\d+\\.mlp\\.", "model.layers.12.mlp.up_proj", true},
    {"model\\.layers\\.\\d+\\.mlp\\.", "model.layers..mlp.up_proj", false},
    {".*\\.layers\\.(0|11)\\..*", "model.layers.11.x", true},
    {".*\\.layers\\.(0|11)\\..*", "model.layers.1.x", false},
    {".*(q|k|v)_proj$", "a.k_proj", true},
    {".*(q|k|v)_proj$", "a.o_proj", false},
    {".*(?:up|gate)_proj", "a.gate_proj", true},
    {"[a-c]+x?[^.]\\.", "abcy.", true},
    {"[a-c]+x?[^.]\\.", "abc..", true},
    {"[a-c]+x?[^.]\\.", "ab..x", true},
    {"[a-c]+x?[^.]\\.", "a..", false},
    {"(ab)*c", "ababc", true},
    {"(ab)*c", "ababac", false},
    {"a|bc", "bcd", true},
    {"", "anything", true},
    {"(a*)*b", "aaaa", false},
    {"a+?b", "aab", true},
    {"(a*)+b", "aab", true},
    {"(a*)+b", "b", true},
    {"(x?|y)+z", "z", true},
    {"(x?|y)+z", "w", false},
};

TEST(ModuleNames, PatternsMatchAsInPython) {
  for (const PatternCase& row : kPatterns) {
    const auto result = matches_pattern(row.pattern, row.text);
    ASSERT_TRUE(result.ok()) << row.pattern << ": " << result.status().message();
    EXPECT_EQ(result.value(), row.matches) << row.pattern << " on " << row.text;
  }
}

TEST(ModuleNames, WhatIsNotUnderstoodIsAnError) {
  for (const char* pattern :
       {"(?!x)a", "(a", "[a", "a{2}", "*a", "a)", "\\b", "\\", "a|*", "(?P<n>a)"}) {
    const auto result = matches_pattern(pattern, "aaa");
    ASSERT_FALSE(result.ok()) << pattern;
    EXPECT_NE(result.status().message().find("is not understood"), std::string::npos) << pattern;
  }
}

TEST(ModuleNames, LongSearchesEnd) {
  const std::string text(200, 'a');
  EXPECT_FALSE(matches_pattern("(a*)*(a*)*(a*)*b", text).ok());
  EXPECT_FALSE(matches_pattern(std::string(5000, '('), text).ok());
  EXPECT_TRUE(matches_pattern(".*a", std::string(300, 'a')).value());
}

}  // namespace
}  // namespace octavo::quant
