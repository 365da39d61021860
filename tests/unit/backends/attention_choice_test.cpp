// Which attention runs on machines that this one need not be.
#include "backends/attention_choice.h"

#include <gtest/gtest.h>

#include "backends/registry.h"

namespace octavo::backends {
namespace {

const AttentionFacts kCpu = {"cpu", 0, 0};

AttentionFacts gpu(int compute_capability, int head_dim = 0) {
  return {"cuda", compute_capability, head_dim};
}

std::string chosen(std::string_view requested, const AttentionFacts& facts) {
  const auto choice = choose_attention(requested, facts);
  return choice.ok() ? describe(*choice) : choice.status().message();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(ChooseAttention, HopperRunsFlashAttention3) {
  for (const char* requested : {"auto", "flash_attention_3"}) {
    EXPECT_EQ(chosen(requested, gpu(90)), "flash_attention_3 (sm_90a)");
    EXPECT_EQ(chosen(requested, gpu(90, 128)), "flash_attention_3 (sm_90a)");
  }
}

TEST(ChooseAttention, FlashAttention2RunsFromAmpereOn) {
  for (const int sm : {80, 86, 89, 90, 120}) {
    EXPECT_EQ(chosen("flash_attention_2", gpu(sm, 128)), "flash_attention_2 (sm_80 and later)");
  }
  const std::string refused = chosen("flash_attention_2", gpu(90, 80));
  EXPECT_TRUE(contains(refused, "no kernel for a head_dim of 80")) << refused;
}

// Not only older GPUs: what is built for sm_90a does not run on later ones.
TEST(ChooseAttention, OtherGpusAreToldWhy) {
  for (const int sm : {80, 86, 89, 100, 120}) {
    const auto refused = choose_attention("flash_attention_3", gpu(sm));
    ASSERT_FALSE(refused.ok()) << sm;
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
    const std::string which = "this GPU is sm_" + std::to_string(sm) + ", it needs sm_90";
    EXPECT_TRUE(contains(refused.status().message(), "flash_attention_3"));
    EXPECT_TRUE(contains(refused.status().message(), which)) << refused.status().message();
    const auto fallback = choose_attention("auto", gpu(sm));
    ASSERT_TRUE(fallback.ok()) << fallback.status().message();
    EXPECT_EQ(fallback->name, "flash_attention_2");
    EXPECT_TRUE(contains(fallback->reason, "flash_attention_3: " + which)) << fallback->reason;
  }
}

TEST(ChooseAttention, BlocksArePowersOfTwoButForThePlainKernel) {
  AttentionFacts facts = gpu(90, 128);
  for (const int block_size : {16, 32, 256}) {
    facts.block_size = block_size;
    EXPECT_EQ(choose_attention("auto", facts)->name, "flash_attention_3") << block_size;
  }
  for (const int block_size : {1, 8, 48, 512}) {
    facts.block_size = block_size;
    EXPECT_EQ(choose_attention("auto", facts)->name, "eager") << block_size;
    EXPECT_TRUE(contains(chosen("flash_attention_2", facts), "no kernel for a block_size of"));
  }
}

TEST(ChooseAttention, AutoFallsBackByHeadDim) {
  EXPECT_EQ(choose_attention("auto", gpu(90, 80))->name, "eager");
  EXPECT_TRUE(contains(chosen("auto", gpu(90, 80)), "no kernel for a head_dim of 80"));
  const auto none = choose_attention("auto", gpu(90, 576));
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(contains(none.status().message(), "eager: it has no kernel for a head_dim of 576"))
      << none.status().message();
}

TEST(ChooseAttention, OldGpusHaveNone) {
  const auto none = choose_attention("auto", gpu(75));
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(contains(none.status().message(), "sm_80 or later")) << none.status().message();
}

TEST(ChooseAttention, TheCpuHasOneImplementation) {
  for (const char* requested : {"auto", "paged", "sdpa", "eager"}) {
    const auto choice = choose_attention(requested, kCpu);
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    EXPECT_EQ(choice->name, "paged");
  }
  EXPECT_TRUE(contains(choose_attention("sdpa", kCpu)->reason, "sdpa: "));
  for (const char* requested : {"flash_attention_3", "flash_attention_2"}) {
    const auto refused = choose_attention(requested, kCpu);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
    EXPECT_TRUE(contains(refused.status().message(), requested));
    EXPECT_TRUE(contains(refused.status().message(), "'cpu' has no GPU"));
  }
}

TEST(ChooseAttention, AnUnknownNameListsAllOthers) {
  for (const char* requested : {"", "flash_attention_4", "AUTO", "auto "}) {
    for (const AttentionFacts& facts : {kCpu, gpu(90)}) {
      const auto refused = choose_attention(requested, facts);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
      for (const std::string& name : attention_names()) {
        EXPECT_TRUE(contains(refused.status().message(), name)) << name;
      }
    }
  }
}

// Whatever is asked of whatever machine, the answer names an implementation or is an error.
TEST(ChooseAttention, AnswersAreConsistent) {
  for (const int sm : {0, 75, 80, 89, 90, 100}) {
    for (const int head_dim : {0, 64, 80, 128, 192, 256, 512}) {
      const AttentionFacts facts = {"x", sm, head_dim};
      bool any = false;
      for (const std::string& name : attention_names()) {
        const auto choice = choose_attention(name, facts);
        if (name == "auto" || !choice.ok()) continue;
        any = true;
        EXPECT_EQ(choice->name, sm == 0 ? "paged" : name);
      }
      EXPECT_EQ(choose_attention("auto", facts).ok(), any) << sm << " " << head_dim;
    }
  }
}

TEST(ChooseAttention, BackendsOfThisMachine) {
  for (const char* name : {"cpu", "ref"}) {
    const auto backend = open_backend(name, Arithmetic::kAuto);
    ASSERT_TRUE(backend.ok());
    EXPECT_EQ(attention_facts(*backend).compute_capability, 0);
    EXPECT_EQ(attention_facts(*backend).backend, name);
  }
}

}  // namespace
}  // namespace octavo::backends
