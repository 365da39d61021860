#include <gtest/gtest.h>

#include "gguf_bytes.h"
#include "support/temp_path.h"

namespace octavo::formats {
namespace {

// Writes `content` to a file and opens it.
Status open_content(std::string_view content) {
  const std::string path = testing::temp_path("some.bin");
  write_file(path, content);
  const auto checkpoint = open_checkpoint(path);
  if (!checkpoint.ok()) {
    EXPECT_TRUE(checkpoint.status().message().starts_with(path)) << checkpoint.status().message();
  }
  return checkpoint.status();
}

void expect_unsupported(std::string_view content, const std::string& what) {
  const Status status = open_content(content);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.message();
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("use a GGUF file"), std::string::npos) << status.message();
}

TEST(OpenCheckpoint, LooksAtTheContentNotTheName) {
  EXPECT_TRUE(open_content(small_gguf().bytes()).ok());
}

TEST(OpenCheckpoint, NamesWhatItDoesNotRead) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const Status weights = open_content(raw(uint64_t{header.size()}) + header + "1234");
  EXPECT_EQ(weights.code(), StatusCode::kUnsupported);
  EXPECT_NE(weights.message().find("config.json"), std::string::npos) << weights.message();
  expect_unsupported("PK\x03\x04 and so on", "PyTorch");
  for (const char* protocol : {"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"}) {
    expect_unsupported(std::string(protocol) + "}q.", "pickle");
  }
  expect_unsupported("tjgg\x03", "GGML");
  expect_unsupported("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS");
  expect_unsupported("<!DOCTYPE html><html></html>", "web page");
  expect_unsupported("hello", "no model file");
  expect_unsupported(raw(uint64_t{1} << 40) + "{}", "no model file");  // not safetensors either
  expect_unsupported("GGU", "no model file");
}

TEST(OpenCheckpoint, DirectoryMissingAndEmptyFiles) {
  const auto directory = open_checkpoint(testing::temp_path(""));
  EXPECT_EQ(directory.status().code(), StatusCode::kNotFound);
  EXPECT_NE(directory.status().message().find("config.json"), std::string::npos);
  const auto missing = open_checkpoint("no/such/file.gguf");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("no/such/file.gguf"), std::string::npos);
  EXPECT_EQ(open_content("").code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace octavo::formats
