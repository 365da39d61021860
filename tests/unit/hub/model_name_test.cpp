#include "hub/model_name.h"

#include <gtest/gtest.h>

namespace octavo::hub {
namespace {

TEST(ModelName, Parts) {
  EXPECT_EQ(*parse_model_name("org/name"), (ModelName{"org/name", ""}));
  EXPECT_EQ(*parse_model_name("o-1/n.a_m-e:Q4_K_M"), (ModelName{"o-1/n.a_m-e", "Q4_K_M"}));
  EXPECT_EQ(*parse_model_name("o/n:sub/m.gguf"), (ModelName{"o/n", "sub/m.gguf"}));
}

TEST(ModelName, RefusesWhatIsNone) {
  for (const char* text :
       {"",       "name",     "/name",  "org/",     "a/b/c",  "../name", "org/..", "org/.x",
        "org/x.", "-o/n",     "o/n-",   "o/a--b",   "o/a..b", "o/n ame", "o/n\n",  "o/n\\x",
        "o/n:",   "o/n:../x", "o/n:/x", "o/n:a//b", ":x",     "o/n%2f",  "\xff/n"}) {
    EXPECT_FALSE(parse_model_name(text).ok()) << text;
  }
  EXPECT_FALSE(parse_model_name("o/" + std::string(97, 'n')).ok());
  EXPECT_TRUE(parse_model_name("o/" + std::string(96, 'n')).ok());
}

TEST(ModelName, FilesAreNotMistakenForNames) {
  EXPECT_TRUE(looks_like_model_name("org/name:Q8_0"));
  for (const char* text : {"models/m.gguf", "models/model.safetensors", "m.gguf", "smollm2", "/a/b",
                           "./a", "a/b/c.gguf"}) {
    EXPECT_FALSE(looks_like_model_name(text)) << text;
  }
}

TEST(ModelName, SafePaths) {
  for (const char* path : {"a", "a/b", "..a", "a..", "...", "ä ö"}) {
    EXPECT_TRUE(is_safe_path(path)) << path;
  }
  for (const std::string& path :
       {std::string(""), std::string("."), std::string(".."), std::string("/a"), std::string("a/"),
        std::string("a//b"), std::string("a/../b"), std::string("a/./b"), std::string("a\\b"),
        std::string("a\0b", 3), std::string("a\nb"), std::string(256, 'a'),
        std::string(2000, 'a')}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
}

TEST(ModelName, Escapes) {
  EXPECT_EQ(url_escape("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(url_escape("a b/c?#%\xc3\xa4~", true), "a%20b/c%3F%23%25%C3%A4~");
}

TEST(ModelName, CommitIds) {
  EXPECT_TRUE(is_commit_id("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit_id("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit_id("0123456789abcdef"));
}

}  // namespace
}  // namespace octavo::hub
