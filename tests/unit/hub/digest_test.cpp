// Digests against figures that sha256sum and git hash-object gave.
#include "hub/digest.h"

#include <gtest/gtest.h>

namespace octavo::hub {
namespace {

std::string digest_of(std::string_view etag, std::string_view content) {
  const auto digest = Digest::for_etag(etag, static_cast<int64_t>(content.size()));
  for (const char c : content) digest->update({&c, 1});
  return digest->finish();
}

TEST(Digest, Sha256) {
  EXPECT_EQ(digest_of(std::string(64, '0'), "hello\n"),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
}

TEST(Digest, GitBlob) {
  EXPECT_EQ(digest_of(std::string(40, '0'), "hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(digest_of(std::string(40, '0'), ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

TEST(Digest, OtherEtagsAreNone) {
  for (const std::string& etag : {std::string(""), std::string(39, 'a'), std::string(64, 'g'),
                                  std::string(40, 'A'), std::string(32, '0')}) {
    EXPECT_EQ(Digest::for_etag(etag, 1), nullptr) << etag;
  }
}

}  // namespace
}  // namespace octavo::hub
