// How many drafts a sequence gets, and what the engine makes of them.
#include "engine/speculator.h"

#include <gtest/gtest.h>

#include "engine/engine_core.h"
#include "engine/speculative_config.h"
#include "unit/engine/fake_executor.h"

namespace octavo::engine {
namespace {

// Drafts tokens that `FakeExecutor` will choose, or none of them.
class KnowingDrafter : public Drafter {
 public:
  explicit KnowingDrafter(const FakeExecutor& executor) : executor_(executor) {}

  Status propose(std::span<const DraftRequest> requests) override {
    if (fails) return internal_error("no more ideas");
    for (const DraftRequest& request : requests) {
      Sequence& sequence = *request.sequence;
      num_wanted += request.num_tokens;
      for (int64_t i = 0; i < request.num_tokens; ++i) {
        const auto next = executor_.next_token(sequence, sequence.num_tokens() - 1 + i);
        sequence.draft_token_ids.push_back(right ? next
                                                 : static_cast<TokenId>((next + 1) % kVocabSize));
      }
    }
    return {};
  }
  void forget(const Sequence&) override {}
  void reset_prefix_cache() override { ++num_resets; }

  bool right = true;
  bool fails = false;
  int64_t num_wanted = 0;
  int num_resets = 0;

 private:
  const FakeExecutor& executor_;
};

struct SpeculatingWorld {
  explicit SpeculatingWorld(int64_t num_speculative_tokens, double row_cost = 0)
      : executor(kVocabSize) {
    EngineCoreConfig config;
    config.scheduler.max_num_seqs = 8;
    config.scheduler.max_num_batched_tokens = 32;
    config.scheduler.max_logit_rows = 32;
    config.num_blocks = 64;
    config.block_size = 4;
    config.max_model_len = 256;
    config.vocab_size = kVocabSize;
    auto owned = std::make_unique<KnowingDrafter>(executor);
    drafter = owned.get();
    core = std::make_unique<EngineCore>(
        config, executor, nullptr, [] { return 0.0; },
        std::make_unique<Speculator>(SpeculatorConfig{num_speculative_tokens, row_cost},
                                     std::move(owned)));
  }

  void add(RequestId id, int64_t max_tokens) {
    EngineRequest request;
    request.prompt_token_ids = {1, 2, 3, static_cast<TokenId>(id)};
    request.sampling.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    auto active = core->prepare(id, std::move(request), [this](const RequestOutput& event) {
      EXPECT_TRUE(event.status.ok()) << event.status.message();
      for (const CompletionOutput& output : event.outputs) {
        num_tokens += static_cast<int64_t>(output.token_ids.size());
      }
    });
    ASSERT_TRUE(active.ok());
    core->add(std::move(*active));
  }

  EngineStats run() {
    while (core->has_requests()) {
      core->step();
      EXPECT_TRUE(core->check_integrity());
    }
    return core->stats();
  }

  FakeExecutor executor;
  KnowingDrafter* drafter = nullptr;
  std::unique_ptr<EngineCore> core;
  int64_t num_tokens = 0;
};

TEST(Speculator, RightDraftsSaveSteps) {
  SpeculatingWorld world(3);
  world.add(1, 13);
  const EngineStats stats = world.run();
  EXPECT_EQ(world.num_tokens, 13);
  // The prompt gives a token, then each step four.
  EXPECT_EQ(stats.num_steps, 1 + 3);
  EXPECT_EQ(stats.generation_tokens, 13);
  EXPECT_EQ(stats.spec_decode_num_drafts, 3);
  EXPECT_EQ(stats.spec_decode_num_draft_tokens, 9);
  EXPECT_EQ(stats.spec_decode_num_accepted_tokens, 9);
  EXPECT_EQ(stats.spec_decode_num_accepted_tokens_per_pos, (std::vector<int64_t>{3, 3, 3}));
}

TEST(Speculator, NothingIsDraftedBeyondTheLastToken) {
  SpeculatingWorld world(8);
  world.add(1, 4);
  const EngineStats stats = world.run();
  EXPECT_EQ(world.num_tokens, 4);
  EXPECT_EQ(stats.num_steps, 2);
  EXPECT_EQ(stats.spec_decode_num_draft_tokens, 2);
}

TEST(Speculator, WrongDraftsBecomeFewAndCostNoStep) {
  SpeculatingWorld world(4, 0.2);
  world.drafter->right = false;
  world.add(1, 200);
  const EngineStats stats = world.run();
  EXPECT_EQ(world.num_tokens, 200);
  EXPECT_EQ(stats.num_steps, 200);
  EXPECT_EQ(stats.spec_decode_num_accepted_tokens, 0);
  EXPECT_GT(stats.spec_decode_num_draft_tokens, 0);
  EXPECT_LT(stats.spec_decode_num_draft_tokens, 20);
  EXPECT_EQ(stats.spec_decode_num_draft_tokens, world.drafter->num_wanted);
}

TEST(Speculator, DraftsComeBackWhenTheyAreRightAgain) {
  SpeculatingWorld world(4, 0.2);
  world.drafter->right = false;
  world.add(1, 250);
  while (world.num_tokens < 100) world.core->step();
  EXPECT_LT(world.core->stats().spec_decode_num_draft_tokens, 20);
  world.drafter->right = true;
  EXPECT_GT(world.run().spec_decode_num_accepted_tokens, 60);
}

TEST(Speculator, ManySequencesGetFewerDrafts) {
  SpeculatingWorld alone(6, 0.1);
  alone.add(1, 40);
  const EngineStats of_one = alone.run();
  SpeculatingWorld many(6, 0.1);
  for (RequestId id = 1; id <= 6; ++id) many.add(id, 40);
  const EngineStats of_many = many.run();
  EXPECT_EQ(many.num_tokens, 6 * 40);
  const auto mean_length = [](const EngineStats& stats) {
    return static_cast<double>(stats.spec_decode_num_draft_tokens) /
           static_cast<double>(stats.spec_decode_num_drafts);
  };
  EXPECT_LT(mean_length(of_many), mean_length(of_one));
}

TEST(Speculator, ADrafterThatFailsEndsSpeculationAndNothingElse) {
  SpeculatingWorld world(2);
  world.add(1, 20);
  for (int i = 0; i < 4; ++i) world.core->step();
  world.drafter->fails = true;
  const EngineStats stats = world.run();
  EXPECT_EQ(world.num_tokens, 20);
  EXPECT_EQ(stats.num_finished, 1);
  EXPECT_EQ(stats.spec_decode_num_drafts, 3);
}

TEST(Speculator, TheDraftersPrefixCacheIsResetWithTheModels) {
  SpeculatingWorld world(2);
  world.add(1, 10);
  world.core->step();
  EXPECT_FALSE(world.core->reset_prefix_cache());
  EXPECT_EQ(world.drafter->num_resets, 0);
  world.run();
  EXPECT_TRUE(world.core->reset_prefix_cache());
  EXPECT_EQ(world.drafter->num_resets, 1);
}

TEST(SpeculativeConfig, ChoicesAreMadeAsInVllm) {
  SpeculativeConfig config{.method = "ngram", .num_speculative_tokens = 4};
  const auto both = resolve_speculative_config(config);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->prompt_lookup_min, 5);
  EXPECT_EQ(both->prompt_lookup_max, 5);
  config.prompt_lookup_max = 3;
  EXPECT_EQ(resolve_speculative_config(config)->prompt_lookup_min, 3);
  config.prompt_lookup_min = 2;
  EXPECT_EQ(resolve_speculative_config(config)->prompt_lookup_max, 3);
  config.method = "";
  EXPECT_EQ(resolve_speculative_config(config)->method, "ngram");
  config = {.model = "draft.gguf", .num_speculative_tokens = 4};
  EXPECT_EQ(resolve_speculative_config(config)->method, "draft_model");
}

TEST(SpeculativeConfig, BadFieldsAreNamed) {
  const SpeculativeConfig good{.method = "ngram", .num_speculative_tokens = 4};
  const auto expect_named = [&](const char* name, auto change) {
    SpeculativeConfig bad = good;
    change(bad);
    const auto resolved = resolve_speculative_config(bad);
    ASSERT_FALSE(resolved.ok()) << name;
    EXPECT_NE(resolved.status().message().find(name), std::string::npos)
        << resolved.status().message();
  };
  expect_named("'eagle'", [](auto& c) { c.method = "eagle"; });
  expect_named("num_speculative_tokens is 0", [](auto& c) { c.num_speculative_tokens = 0; });
  expect_named("num_speculative_tokens", [](auto& c) { c.num_speculative_tokens = 1000; });
  expect_named("prompt_lookup_max is -1", [](auto& c) { c.prompt_lookup_max = -1; });
  expect_named("prompt_lookup_min is 4", [](auto& c) {
    c.prompt_lookup_min = 4;
    c.prompt_lookup_max = 3;
  });
  expect_named("ngram takes no model", [](auto& c) { c.model = "draft.gguf"; });
  expect_named("needs a model", [](auto& c) { c.method = "draft_model"; });
  expect_named("prompt_lookup_min", [](auto& c) {
    c = {.model = "draft.gguf", .num_speculative_tokens = 4, .prompt_lookup_min = 2};
  });
}

}  // namespace
}  // namespace octavo::engine
