#include "base/base64.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

// The test vectors of RFC 4648.
TEST(Base64, Decodes) {
  const std::pair<const char*, const char*> rows[] = {
      {"", ""},
      {"Zg==", "f"},
      {"Zm8=", "fo"},
      {"Zm9v", "foo"},
      {"Zm9vYg==", "foob"},
      {"Zm9vYmE=", "fooba"},
      {"Zm9vYmFy", "foobar"},
      {"Zm9vYmE", "fooba"},
      {"+/+/", "\xFB\xFF\xBF"},
  };
  for (const auto& [text, bytes] : rows) EXPECT_EQ(base64_decode(text), bytes) << text;
}

TEST(Base64, Encodes) {
  const std::pair<const char*, const char*> rows[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xFB\xFF\xBF", "+/+/"},
  };
  for (const auto& [bytes, text] : rows) EXPECT_EQ(base64_encode(bytes), text);
}

TEST(Base64, RefusesAllElse) {
  for (const char* text : {"Z", "Zm9vY", "Zm9v\n", " Zm9v", "Zm=v", "Zg===", "====", "=", "Zm9-",
                           "Zm9_", "Zh==", "Zm9=", "Zg=", "Zm8=Zg==", "\xC3\xA9=="}) {
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace octavo
