#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/memory_limits.h"

namespace octavo::engine {
namespace {

constexpr int64_t kMiB = 1 << 20;

MemoryFacts facts() {
  return {1000 * kMiB, 100 * kMiB, 50 * kMiB, kMiB, 160};
}

EngineConfig config_of(int64_t max_num_seqs) {
  EngineConfig config;
  config.max_num_seqs = max_num_seqs;
  config.max_num_batched_tokens = 512;  // as a runner has chosen it
  return config;
}

TEST(MemoryPlan, DefaultsToWhatAllSequencesNeedOrFortyPercent) {
  EXPECT_EQ(plan_memory(config_of(4), facts())->num_blocks, 40);     // 4 of 160 tokens
  EXPECT_EQ(plan_memory(config_of(128), facts())->num_blocks, 400);  // of 1000 MiB
}

TEST(MemoryPlan, OfAGpuAllCountsButAShare) {
  MemoryFacts gpu = facts();
  gpu.gpu = true;
  EXPECT_EQ(plan_memory(config_of(128), gpu)->num_blocks, 750);  // 900 - 100 - 50
  EXPECT_EQ(plan_memory(config_of(4), gpu)->num_blocks, 40);
  EngineConfig config = config_of(128);
  config.gpu_memory_utilization = 0.5;
  EXPECT_EQ(plan_memory(config, gpu)->num_blocks, 350);
  config.gpu_memory_utilization = 0.1;
  EXPECT_FALSE(plan_memory(config, gpu).ok());  // less than the weights
  for (const double wrong : {0.0, -0.5, 1.01, std::nan("")}) {
    config.gpu_memory_utilization = wrong;
    const Status status = check_engine_config(config);
    ASSERT_FALSE(status.ok()) << wrong;
    EXPECT_NE(status.message().find("gpu_memory_utilization"), std::string::npos);
  }
}

TEST(MemoryPlan, SizesThatAreGivenCount) {
  EngineConfig config = config_of(4);
  config.num_gpu_blocks_override = 77;
  EXPECT_EQ(plan_memory(config, facts())->num_blocks, 77);
  config.num_gpu_blocks_override = 0;
  config.kv_cache_memory_bytes = 33 * kMiB + 5;
  EXPECT_EQ(plan_memory(config, facts())->num_blocks, 33);
  config.max_paged_cache_size = 12;
  EXPECT_EQ(plan_memory(config, facts())->num_blocks, 12);
}

TEST(MemoryPlan, AWindowNeedsNoRoomForTheWholeContext) {
  MemoryFacts window = facts();
  window.spans[0].window = 32;
  EngineConfig config = config_of(4);
  config.max_num_batched_tokens = 16;
  const auto plan = plan_memory(config, window);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->num_blocks, 4 * 4);  // of 48 tokens, wherever these begin
  EXPECT_EQ(plan->max_model_len, 160);
  config.num_gpu_blocks_override = 4;
  EXPECT_EQ(plan_memory(config, window)->max_model_len, 160);
  config.num_gpu_blocks_override = 3;
  EXPECT_EQ(plan_memory(config, window)->max_model_len, 48);
}

TEST(MemoryPlan, OfMixedLayersOnlySomeNeedRoomForTheWholeContext) {
  MemoryFacts mixed = facts();
  mixed.spans = {{}, {.window = 32}};
  EngineConfig config = config_of(4);
  config.max_num_batched_tokens = 16;
  const auto plan = plan_memory(config, mixed);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->num_blocks, 4 * (10 + 4));
  EXPECT_EQ(plan->max_model_len, 160);
  EXPECT_NE(describe(*plan).find("448 tokens in each of 2 groups"), std::string::npos);
  config.num_gpu_blocks_override = 13;
  EXPECT_EQ(plan_memory(config, mixed)->max_model_len, 144);  // 9 pages and 4
  config.num_gpu_blocks_override = 2;
  EXPECT_EQ(plan_memory(config, mixed)->max_model_len, 16);
  config.num_gpu_blocks_override = 1;
  EXPECT_FALSE(plan_memory(config, mixed).ok());
}

TEST(MemoryPlan, TheContextShrinksOnlyWhereNobodyAskedForIt) {
  EngineConfig config = config_of(4);
  config.num_gpu_blocks_override = 5;
  EXPECT_EQ(plan_memory(config, facts())->max_model_len, 80);
  config.max_model_len = 160;
  const auto refused = plan_memory(config, facts());
  ASSERT_FALSE(refused.ok());
  for (const char* part : {"max_model_len", "160", "80", "10.0 MiB"}) {
    EXPECT_NE(refused.status().message().find(part), std::string::npos)
        << refused.status().message();
  }
}

TEST(MemoryPlan, WhatDoesNotFitIsRefused) {
  EngineConfig config = config_of(4);
  config.kv_cache_memory_bytes = kMiB - 1;
  EXPECT_FALSE(plan_memory(config, facts()).ok());
  config.kv_cache_memory_bytes = 2000 * kMiB;
  EXPECT_FALSE(plan_memory(config, facts()).ok());
  MemoryFacts unknown = facts();
  unknown.available_bytes = 0;
  EXPECT_FALSE(plan_memory(config_of(4), unknown).ok());
  config.kv_cache_memory_bytes = 20 * kMiB;
  EXPECT_EQ(plan_memory(config, unknown)->num_blocks, 20);
}

TEST(MemoryPlan, SaysWhatGoesWhere) {
  const std::string text = describe(*plan_memory(config_of(4), facts()));
  for (const char* part : {"weights 100.0 MiB", "workspace 50.0 MiB", "KV cache 40.0 MiB",
                           "40 blocks of 16", "640 tokens", "810.0 MiB are left"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(MemoryLimits, ThisMachineSaysHowMuchItHas) {
  EXPECT_GT(available_memory_bytes(), kMiB);
}

}  // namespace
}  // namespace octavo::engine
