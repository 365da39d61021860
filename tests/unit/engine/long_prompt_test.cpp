// Prompts much longer than a step, and longer than there is room for.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <string>

#include "octavo/engine.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo {
namespace {

std::unique_ptr<AsyncEngine> start(int64_t context_length, const EngineConfig& config) {
  testing::TinyLlama spec;
  spec.num_hidden_layers = 1;
  spec.num_attention_heads = 1;
  spec.num_key_value_heads = 1;
  spec.head_dim = 32;
  spec.context_length = context_length;
  const std::string path = testing::temp_path("long.gguf");
  testing::write_tiny_llama(path, spec);
  auto engine = AsyncEngine::create(path, config);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(*engine);
}

EngineRequest request_of(int64_t num_tokens) {
  EngineRequest request;
  for (int64_t i = 0; i < num_tokens; ++i) {
    request.prompt_token_ids.push_back(static_cast<TokenId>(i * i % 97 + 3));
  }
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = 4;
  request.output_kind = OutputKind::kFinalOnly;
  return request;
}

RequestOutput answer(AsyncEngine& engine, int64_t num_tokens) {
  std::promise<RequestOutput> last;
  const auto id = engine.submit(request_of(num_tokens), [&last](const RequestOutput& output) {
    if (output.finished) last.set_value(output);
  });
  EXPECT_TRUE(id.ok()) << id.status().message();
  return last.get_future().get();
}

int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) << 10;
  }
  return 0;
}

// A matrix of scores of all pairs would take 16 GiB. What is allowed beside the KV cache of 8 MiB
// is the workspace of a step and what the allocator keeps.
TEST(LongPrompt, SixtyFourThousandTokensInBoundedMemory) {
  constexpr int64_t kLength = 1 << 16;
  EngineConfig config;
  config.num_gpu_blocks_override = kLength / 16 + 1;
  const auto engine = start(kLength + 16, config);
  const int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  const RequestOutput output = answer(*engine, kLength);
  EXPECT_TRUE(output.status.ok()) << output.status.message();
  EXPECT_EQ(output.usage.prompt_tokens, kLength);
  EXPECT_EQ(output.usage.completion_tokens, 4);
  EXPECT_GE(engine->stats().num_steps, kLength / 512);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(resident_bytes() - before, 64 << 20);
#endif
}

TEST(LongPrompt, WhatHasNoRoomIsRefusedWithTheNumbersAndTheEngineGoesOn) {
  EngineConfig config;
  config.num_gpu_blocks_override = 20;  // 320 tokens
  const auto engine = start(1024, config);
  const auto never = [](const RequestOutput&) { ADD_FAILURE() << "it was refused"; };
  const auto beyond_memory = engine->submit(request_of(330), never);
  ASSERT_FALSE(beyond_memory.ok());
  EXPECT_NE(beyond_memory.status().message().find("330"), std::string::npos);
  EXPECT_NE(beyond_memory.status().message().find("320"), std::string::npos);
  EXPECT_FALSE(engine->submit(request_of(2000), never).ok());
  EXPECT_TRUE(answer(*engine, 300).status.ok());
  EXPECT_EQ(engine->stats().num_refused, 2);
}

}  // namespace
}  // namespace octavo
