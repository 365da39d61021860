// Runs with and without a GPU: without one, the description must say so and nothing may fail.
#include "backends/cuda/describe.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace octavo::backends {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(DescribeCuda, SaysWhatTheMachineHas) {
  const std::vector<std::string> sentences = describe_cuda();
  ASSERT_GE(sentences.size(), 3u);
  EXPECT_TRUE(contains(sentences[0], "CUDA runtime 13.")) << sentences[0];
  const bool has_device = sentences.size() > 3;
  const std::string& driver = sentences[1];
  EXPECT_NE(has_device, contains(driver, "no NVIDIA driver") || contains(driver, "no GPU"))
      << driver;
  EXPECT_TRUE(contains(sentences[2], "cuBLASLt")) << sentences[2];
  for (size_t i = 3; i < sentences.size(); ++i) {
    EXPECT_TRUE(contains(sentences[i], "; attention ")) << sentences[i];
  }
}

TEST(DescribeCuda, HopperComputesWhatItShould) {
  const std::vector<std::string> sentences = describe_cuda();
  bool has_hopper = false;
  for (const std::string& sentence : sentences) {
    if (!contains(sentence, "sm_90,")) continue;
    has_hopper = true;
    EXPECT_TRUE(contains(sentence, "wgmma self-check passed")) << sentence;
    EXPECT_TRUE(contains(sentence, "attention flash_attention_3 (sm_90a)")) << sentence;
  }
  if (!has_hopper) GTEST_SKIP() << "no GPU of sm_90 here";
}

}  // namespace
}  // namespace octavo::backends
