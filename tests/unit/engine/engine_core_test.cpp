// The engine's core, step by step: how requests end, what events say, and what a failure does.
#include "engine/engine_core.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/letter_tokenizer.h"
#include "unit/engine/fake_executor.h"

namespace octavo::engine {
namespace {

struct CoreWorld {
  explicit CoreWorld(int64_t num_blocks = 64) : executor(kVocabSize), tokenizer(kVocabSize) {
    config.scheduler.max_num_seqs = 8;
    config.scheduler.max_num_batched_tokens = 16;
    config.scheduler.max_logit_rows = 12;
    config.num_blocks = num_blocks;
    config.block_size = 4;
    config.max_model_len = 64;
    config.vocab_size = kVocabSize;
    core = std::make_unique<EngineCore>(config, executor, &tokenizer, [this] { return now; });
  }

  // Returns why it was refused, if it was.
  Status add(RequestId id, EngineRequest request) {
    auto active = core->prepare(id, std::move(request),
                                [this](const RequestOutput& event) { events.push_back(event); });
    if (!active.ok()) return active.status();
    (*active)->submitted = now;
    const auto timeout = (*active)->request.timeout_s;
    if (timeout) (*active)->deadline = now + *timeout;
    core->add(std::move(*active));
    return {};
  }

  void run() {
    for (int step = 0; step < 1000 && core->has_requests(); ++step) {
      now += 1;
      core->step();
      EXPECT_TRUE(core->check_integrity());
    }
    EXPECT_FALSE(core->has_requests());
    EXPECT_EQ(core->stats().num_used_blocks, 0);
  }

  const RequestOutput& last_event_of(RequestId id) {
    const RequestOutput* last = nullptr;
    for (const RequestOutput& event : events) {
      if (event.id != id) continue;
      EXPECT_TRUE(last == nullptr || !last->finished);
      last = &event;
    }
    EXPECT_TRUE(last != nullptr && last->finished) << "request " << id;
    return *last;
  }

  EngineCoreConfig config;
  FakeExecutor executor;
  testing::LetterTokenizer tokenizer;
  double now = 0;
  std::unique_ptr<EngineCore> core;
  std::vector<RequestOutput> events;
};

EngineRequest request_of(int64_t prompt, int64_t max_tokens,
                         OutputKind kind = OutputKind::kFinalOnly) {
  EngineRequest request;
  for (int64_t i = 0; i < prompt; ++i) {
    request.prompt_token_ids.push_back(static_cast<TokenId>(1 + i % (kVocabSize - 1)));
  }
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.output_kind = kind;
  return request;
}

TEST(EngineCore, MetricsSayWhereTheTimeWent) {
  CoreWorld world;
  ASSERT_TRUE(world.add(1, request_of(40, 5)).ok());  // three chunks of 16, 16 and 8
  world.now += 2;
  world.run();
  const RequestOutput& event = world.last_event_of(1);
  EXPECT_EQ(event.metrics.queued_s, 3);  // the step begins a second later
  EXPECT_EQ(event.metrics.prefill_s, 2);
  EXPECT_EQ(event.metrics.decode_s, 4);
  EXPECT_EQ(event.usage.prompt_tokens, 40);
  EXPECT_EQ(event.usage.completion_tokens, 5);
  EXPECT_EQ(*event.outputs.at(0).finish_reason, FinishReason::kLength);
}

TEST(EngineCore, ASecondRequestReportsCachedTokens) {
  CoreWorld world;
  ASSERT_TRUE(world.add(1, request_of(17, 1)).ok());
  world.run();
  ASSERT_TRUE(world.add(2, request_of(17, 1)).ok());
  world.run();
  EXPECT_EQ(world.last_event_of(1).usage.cached_tokens, 0);
  EXPECT_EQ(world.last_event_of(2).usage.cached_tokens, 16);
  EngineRequest salted = request_of(17, 1);
  salted.cache_salt = "other";
  ASSERT_TRUE(world.add(3, salted).ok());
  world.run();
  EXPECT_EQ(world.last_event_of(3).usage.cached_tokens, 0);
  EXPECT_TRUE(world.core->reset_prefix_cache());
  ASSERT_TRUE(world.add(4, request_of(17, 1)).ok());
  world.run();
  EXPECT_EQ(world.last_event_of(4).usage.cached_tokens, 0);
}

TEST(EngineCore, DeadlinesEndWhatRunsAndWhatWaits) {
  CoreWorld world;
  EngineRequest slow = request_of(4, 50);
  slow.timeout_s = 10;
  ASSERT_TRUE(world.add(1, slow).ok());
  ASSERT_TRUE(world.add(2, request_of(4, 30)).ok());
  for (int i = 0; i < 9; ++i) {
    world.now += 1;
    world.core->end_expired();
    world.core->step();
  }
  EXPECT_TRUE(world.events.empty());
  EXPECT_EQ(world.core->next_deadline(), 10);
  world.now = 10;
  world.core->end_expired();
  const RequestOutput& event = world.last_event_of(1);
  EXPECT_EQ(event.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(*event.outputs.at(0).finish_reason, FinishReason::kAbort);
  EXPECT_EQ(event.outputs.at(0).token_ids.size(), 9u);
  world.run();
  EXPECT_TRUE(world.last_event_of(2).status.ok());
  EXPECT_EQ(world.core->stats().num_timed_out, 1);
  EXPECT_EQ(world.core->stats().num_finished, 1);
}

TEST(EngineCore, AFailedStepFailsItsRequestsAndNoOthers) {
  for (const bool throws : {false, true}) {
    CoreWorld world(/*num_blocks=*/16);
    world.executor.on_step = [&](int64_t step, const Plan&) -> Status {
      if (step != 2) return {};
      if (throws) throw std::runtime_error("the device is gone");
      return internal_error("the device is gone");
    };
    ASSERT_TRUE(world.add(1, request_of(8, 8)).ok());
    ASSERT_TRUE(world.add(2, request_of(60, 4)).ok());  // must wait for the blocks of the first
    world.run();
    const Status& failed = world.last_event_of(1).status;
    EXPECT_EQ(failed.code(), StatusCode::kInternal);
    EXPECT_NE(failed.message().find("the device is gone"), std::string::npos);
    EXPECT_TRUE(world.last_event_of(2).status.ok());
    EXPECT_FALSE(world.core->broken());
    ASSERT_TRUE(world.add(3, request_of(8, 8)).ok());
    world.run();
    EXPECT_TRUE(world.last_event_of(3).status.ok());
    EXPECT_EQ(world.core->stats().num_failed, 1);
  }
}

TEST(EngineCore, FailuresInARowBreakTheEngine) {
  CoreWorld world;
  world.executor.on_step = [](int64_t, const Plan&) { return internal_error("no device"); };
  for (RequestId id = 1; id <= 3; ++id) {
    EXPECT_FALSE(world.core->broken());
    ASSERT_TRUE(world.add(id, request_of(4, 4)).ok());
    world.run();
  }
  EXPECT_TRUE(world.core->broken());
  EXPECT_EQ(world.core->last_failure().message(), "no device");
}

// One request's NaN is nobody else's.
TEST(EngineCore, NanInARowFailsItsRequestOnly) {
  CoreWorld world;
  world.executor.on_step = [](int64_t, const Plan&) { return Status(); };
  world.executor.on_logits = [](int64_t step, std::vector<float>& logits) {
    if (step == 3) logits[kVocabSize + 5] = NAN;  // in the second row
  };
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(world.add(id, request_of(4, 8)).ok());
  world.run();
  EXPECT_TRUE(world.last_event_of(1).status.ok());
  EXPECT_EQ(world.last_event_of(2).status.code(), StatusCode::kInternal);
  EXPECT_TRUE(world.last_event_of(3).status.ok());
}

TEST(EngineCore, TheNumberOfThreadsChangesNoToken) {
  std::vector<std::vector<TokenId>> expected;
  for (const int num_threads : {0, 1, 2, 5}) {
    CoreWorld world;
    if (num_threads > 0) world.executor.threads = std::make_unique<ThreadPool>(num_threads);
    for (RequestId id = 0; id < 4; ++id) {
      EngineRequest request = request_of(5, 12);
      request.n = 2;
      request.sampling.temperature = 2;
      request.sampling.seed = 77 + id;
      request.sampling.frequency_penalty = 0.5f;
      request.sampling.logprobs = 2;
      ASSERT_TRUE(world.add(id, std::move(request)).ok());
    }
    world.run();
    std::vector<std::vector<TokenId>> answers;
    for (RequestId id = 0; id < 4; ++id) {
      for (const CompletionOutput& output : world.last_event_of(id).outputs) {
        EXPECT_EQ(output.logprobs.size(), output.token_ids.size());
        answers.push_back(output.token_ids);
      }
    }
    if (expected.empty()) expected = answers;
    EXPECT_EQ(answers, expected) << num_threads << " threads";
  }
  EXPECT_NE(expected[0], expected[1]);
}

TEST(EngineCore, ASinkThatThrowsHarmsNobody) {
  CoreWorld world;
  auto active = world.core->prepare(1, request_of(4, 4, OutputKind::kDelta),
                                    [](const RequestOutput&) { throw std::runtime_error("bad"); });
  ASSERT_TRUE(active.ok());
  world.core->add(std::move(*active));
  ASSERT_TRUE(world.add(2, request_of(4, 4)).ok());
  world.run();
  EXPECT_TRUE(world.last_event_of(2).status.ok());
}

TEST(EngineCore, CancellingOneOfManyForksFreesAll) {
  CoreWorld world;
  EngineRequest request = request_of(10, 30, OutputKind::kDelta);
  request.n = 4;
  request.sampling.temperature = 1;
  ASSERT_TRUE(world.add(1, request).ok());
  for (int i = 0; i < 5; ++i) world.core->step();
  EXPECT_EQ(world.core->page_table(1, 0)->at(0).reference_count, 4);
  EXPECT_EQ(world.core->page_table(1, 3)->size(), 4u);
  EXPECT_FALSE(world.core->page_table(1, 4).ok());
  EXPECT_FALSE(world.core->page_table(2, 0).ok());
  world.core->end(1, cancelled("enough"));
  EXPECT_EQ(world.core->stats().num_used_blocks, 0);
  const RequestOutput& event = world.last_event_of(1);
  EXPECT_EQ(event.outputs.size(), 4u);
  EXPECT_EQ(event.status.code(), StatusCode::kCancelled);
  world.core->end(1, cancelled("twice"));  // no second event
  world.last_event_of(1);
}

TEST(EngineCore, AnAsynchronousStepIsDeliveredDuringTheNext) {
  CoreWorld world;
  world.executor.async = true;
  std::vector<size_t> known;  // events when a step begins
  world.executor.on_step = [&](int64_t, const Plan&) -> Status {
    known.push_back(world.events.size());
    return {};
  };
  ASSERT_TRUE(world.add(1, request_of(4, 3, OutputKind::kDelta)).ok());
  ASSERT_TRUE(world.core->step());
  EXPECT_TRUE(world.core->has_news());
  ASSERT_TRUE(world.core->step());
  ASSERT_TRUE(world.core->step());
  EXPECT_EQ(known, (std::vector<size_t>{0, 0, 1}));
  EXPECT_EQ(world.events.size(), 2u);
  EXPECT_EQ(world.core->stats().num_requests_waiting, 0);  // it has ended, but is not told so
  EXPECT_EQ(world.core->stats().num_requests_running, 1);
  EXPECT_EQ(world.core->stats().num_tokens_waiting, 0);
  world.core->end(1, cancelled("too late: only the event is missing"));
  EXPECT_TRUE(world.last_event_of(1).status.ok());
  EXPECT_FALSE(world.core->deliver());
  EXPECT_FALSE(world.core->step());
  EXPECT_EQ(world.core->stats().num_finished, 1);
}

// A request that fails is not part of the step that is begun before its event goes out.
TEST(EngineCore, AnAsynchronousStepsFailureEndsItsRequestAtOnce) {
  CoreWorld world;
  world.executor.async = true;
  world.executor.on_step = [](int64_t, const Plan&) { return Status(); };
  world.executor.on_logits = [](int64_t step, std::vector<float>& logits) {
    if (step == 2) logits[0] = NAN;
  };
  ASSERT_TRUE(world.add(1, request_of(4, 6)).ok());
  ASSERT_TRUE(world.add(2, request_of(5, 6)).ok());
  world.run();
  EXPECT_EQ(world.last_event_of(1).status.code(), StatusCode::kInternal);
  EXPECT_TRUE(world.last_event_of(2).status.ok());
}

TEST(EngineCore, DeltasCarryTextTokensAndLogprobsOnce) {
  CoreWorld world;
  EngineRequest request = request_of(10, 12, OutputKind::kDelta);
  request.sampling.logprobs = 1;
  request.sampling.prompt_logprobs = 0;
  request.echo = true;
  ASSERT_TRUE(world.add(1, request).ok());
  request.output_kind = OutputKind::kCumulative;
  ASSERT_TRUE(world.add(2, request).ok());
  world.run();
  std::string text;
  size_t tokens = 0, logprobs = 0, prompt_logprobs = 0;
  for (const RequestOutput& event : world.events) {
    if (event.id != 1) continue;
    prompt_logprobs += event.prompt_logprobs.size();
    ASSERT_EQ(event.outputs.size(), 1u);
    text += event.outputs[0].text;
    tokens += event.outputs[0].token_ids.size();
    logprobs += event.outputs[0].logprobs.size();
  }
  EXPECT_EQ(tokens, 12u);
  EXPECT_EQ(logprobs, 12u);
  EXPECT_EQ(prompt_logprobs, 9u);
  const RequestOutput& whole = world.last_event_of(2);
  EXPECT_EQ(text, whole.outputs[0].text);
  EXPECT_EQ(whole.prompt_logprobs.size(), 9u);
  const auto prompt = world.tokenizer.decode(request.prompt_token_ids, false).value();
  EXPECT_EQ(text.substr(0, prompt.size()), prompt);
}

TEST(EngineCore, BadRequestsAreRefusedWithTheFieldsName) {
  CoreWorld world(8);  // 32 tokens
  const auto refused = [&](const char* expected, auto change) {
    EngineRequest request = request_of(4, 4);
    change(request);
    const Status status = world.add(1, request);
    ASSERT_FALSE(status.ok()) << expected;
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
  };
  refused("prompt is empty", [](EngineRequest& r) { r.prompt_token_ids.clear(); });
  refused("50", [](EngineRequest& r) { r.prompt_token_ids[2] = 50; });
  refused("64", [](EngineRequest& r) { r.prompt_token_ids.assign(64, 1); });
  refused("n is 0", [](EngineRequest& r) { r.n = 0; });
  refused("n is 2000000000", [](EngineRequest& r) { r.n = 2000000000; });
  refused("timeout_s", [](EngineRequest& r) { r.timeout_s = NAN; });
  refused("timeout_s", [](EngineRequest& r) { r.timeout_s = -1; });
  refused("temperature", [](EngineRequest& r) { r.sampling.temperature = -1; });
  refused("logit_bias", [](EngineRequest& r) { r.sampling.logit_bias = {{77, 1}}; });
  refused("9 KV blocks", [](EngineRequest& r) { r.sampling.max_tokens = 29; });
  EXPECT_FALSE(world.core->prepare(1, request_of(4, 4), nullptr).ok());
  EXPECT_TRUE(world.add(1, request_of(4, 28)).ok());
  world.run();
}

}  // namespace
}  // namespace octavo::engine
