// The engine with its thread: whatever many callers do at once, every request ends exactly once.
#include "engine/local_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>

#include "base/clock.h"
#include "base/rng.h"
#include "support/letter_tokenizer.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"
#include "unit/engine/fake_executor.h"

namespace octavo::engine {
namespace {

using OnStep = std::function<Status(int64_t, const Plan&)>;

std::unique_ptr<AsyncEngine> start(const OnStep& on_step = nullptr, const EngineConfig& config = {},
                                   bool async = false,
                                   const std::function<double()>& clock = now_seconds) {
  LocalEngine::Parts parts;
  parts.config = config;
  parts.core.scheduler.max_num_seqs = 8;
  parts.core.scheduler.max_num_batched_tokens = 32;
  parts.core.scheduler.max_logit_rows = 16;
  parts.core.num_blocks = 40;
  parts.core.block_size = 4;
  parts.core.max_model_len = 100;
  parts.core.vocab_size = kVocabSize;
  auto executor = std::make_unique<FakeExecutor>(kVocabSize);
  executor->on_step = on_step;
  executor->async = async;
  parts.executor = std::move(executor);
  parts.tokenizer = std::make_unique<testing::LetterTokenizer>(kVocabSize);
  parts.clock = clock;
  auto engine = LocalEngine::start(std::move(parts));
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(*engine);
}

EngineRequest fake_request(int64_t prompt, int64_t max_tokens) {
  EngineRequest request;
  request.prompt_token_ids.assign(prompt, 3);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

// Slow enough that a test can step in between, also where a thread waits long for its turn.
Status sleep_a_little(int64_t, const Plan&) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return {};
}

// The last event of one request, to wait for.
struct Ending {
  std::promise<RequestOutput> promise;
  std::future<RequestOutput> future = promise.get_future();
  RequestOutputSink sink() {
    return [this](const RequestOutput& event) {
      if (event.finished) promise.set_value(event);  // throws when called twice
    };
  }
  bool ready() const {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
};

void expect_balanced(const EngineStats& stats) {
  EXPECT_EQ(stats.num_submitted, stats.num_requests_running + stats.num_requests_waiting +
                                     stats.num_finished + stats.num_cancelled +
                                     stats.num_timed_out + stats.num_failed);
  EXPECT_EQ(stats.num_used_blocks + stats.num_cached_blocks + stats.num_free_blocks,
            stats.num_blocks);
}

void expect_no_leaks_in_a_storm(bool async) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 60;
  const auto engine = start(nullptr, {}, async);
  std::array<std::array<std::atomic<int>, kRequests>, kThreads> endings{};
  std::vector<std::thread> threads;
  std::atomic<int> accepted{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      std::vector<RequestId> ids;
      for (int i = 0; i < kRequests; ++i) {
        EngineRequest request = fake_request(1 + static_cast<int64_t>(rng.next_u64() % 40),
                                             1 + static_cast<int64_t>(rng.next_u64() % 20));
        request.n = 1 + static_cast<int32_t>(rng.next_u64() % 3);
        if (rng.next_u64() % 8 == 0) request.timeout_s = 1e-4;
        const auto id = engine->submit(request, [&endings, t, i](const RequestOutput& event) {
          if (event.finished) ++endings[t][i];
        });
        ASSERT_TRUE(id.ok()) << id.status().message();
        ++accepted;
        ids.push_back(*id);
        if (rng.next_u64() % 2 == 0) engine->cancel(ids[rng.next_u64() % ids.size()]);
        expect_balanced(engine->stats());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(engine->drain(60).ok());
  const EngineStats stats = engine->stats();
  expect_balanced(stats);
  EXPECT_EQ(stats.num_submitted, accepted);
  EXPECT_EQ(stats.num_requests_running + stats.num_requests_waiting, 0);
  EXPECT_EQ(stats.num_used_blocks, 0);
  EXPECT_GT(stats.num_cancelled, 0);
  for (const auto& row : endings) {
    for (const auto& count : row) EXPECT_EQ(count, 1);
  }
  EXPECT_EQ(engine->submit(fake_request(1, 1), [](const auto&) {}).status().code(),
            StatusCode::kUnavailable);
}

TEST(LocalEngine, StormsOfRequestsAndCancelsLeakNothing) {
  expect_no_leaks_in_a_storm(false);
}

TEST(LocalEngine, StormsOnAnAsynchronousExecutorLeakNothing) {
  expect_no_leaks_in_a_storm(true);
}

TEST(LocalEngine, ShutdownEndsWhatRunsAndWhatWaits) {
  auto engine = start(sleep_a_little);
  std::vector<std::unique_ptr<Ending>> endings;
  for (int i = 0; i < 20; ++i) {
    endings.push_back(std::make_unique<Ending>());
    ASSERT_TRUE(engine->submit(fake_request(10, 80), endings.back()->sink()).ok());
  }
  engine->shutdown();
  for (auto& ending : endings) {
    ASSERT_TRUE(ending->ready());
    EXPECT_EQ(ending->future.get().status.code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(engine->health().code(), StatusCode::kUnavailable);
  expect_balanced(engine->stats());
  EXPECT_EQ(engine->stats().num_cancelled, 20);
  EXPECT_EQ(engine->submit(fake_request(1, 1), [](const auto&) {}).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(engine->reset_prefix_cache().code(), StatusCode::kUnavailable);
  engine->cancel(1);
  engine->shutdown();
}

TEST(LocalEngine, APausedEngineTakesCancelsAndTimesOutRequests) {
  const auto engine = start();
  engine->pause();
  Ending kept, dropped, late;
  ASSERT_TRUE(engine->submit(fake_request(10, 5), kept.sink()).ok());
  const auto id = engine->submit(fake_request(10, 5), dropped.sink());
  EngineRequest impatient = fake_request(10, 5);
  impatient.timeout_s = 0.01;
  ASSERT_TRUE(engine->submit(impatient, late.sink()).ok());
  engine->cancel(*id);
  EXPECT_EQ(dropped.future.get().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(late.future.get().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine->stats().num_steps, 0);
  EXPECT_FALSE(kept.ready());
  EXPECT_EQ(engine->drain(0.01).code(), StatusCode::kDeadlineExceeded);
  engine->resume();
  EXPECT_TRUE(kept.future.get().status.ok());
  EXPECT_TRUE(engine->drain(60).ok());
}

// Who watches over the engine must not take the first step after a long pause for a hang.
TEST(LocalEngine, APauseDoesNotCountAsAStepThatTakesLong) {
  std::atomic<double> time = 1;
  std::promise<void> begun, go_on;
  const auto engine = start(
      [&](int64_t step, const Plan&) -> Status {
        if (step > 0) return {};
        begun.set_value();
        go_on.get_future().wait();
        return {};
      },
      {}, false, [&] { return time.load(); });
  engine->pause();
  ASSERT_TRUE(engine->submit(fake_request(10, 5), [](const auto&) {}).ok());
  time = 1001;
  engine->resume();
  begun.get_future().wait();
  time = 1004;
  EXPECT_EQ(engine->stats().last_step_age_s, 3);
  go_on.set_value();
  EXPECT_TRUE(engine->drain(60).ok());
}

// An asynchronous executor's steps are delivered during the step after; a pause is no such step.
TEST(LocalEngine, APauseKeepsBackNothingThatIsDone) {
  AsyncEngine* running = nullptr;
  const auto pause = [&](int64_t, const Plan&) -> Status {
    running->pause();
    return {};
  };
  const auto engine = start(pause, {}, true);
  running = engine.get();
  Ending ending;
  ASSERT_TRUE(engine->submit(fake_request(10, 1), ending.sink()).ok());
  EXPECT_TRUE(ending.future.get().status.ok());
  EXPECT_TRUE(engine->drain(60).ok());
  EXPECT_EQ(engine->stats().num_finished, 1);
}

TEST(LocalEngine, ARequestsOwnStopTokenCancelsIt) {
  const auto engine = start();
  engine->pause();
  for (const bool before : {true, false}) {
    std::stop_source source;
    EngineRequest request = fake_request(10, 5);
    request.cancel = source.get_token();
    if (before) source.request_stop();
    Ending ending;
    ASSERT_TRUE(engine->submit(request, ending.sink()).ok());
    if (!before) source.request_stop();
    EXPECT_EQ(ending.future.get().status.code(), StatusCode::kCancelled);
  }
  EXPECT_TRUE(engine->drain(60).ok());  // counts follow events
  EXPECT_EQ(engine->stats().num_cancelled, 2);
}

TEST(LocalEngine, AFullQueueRefuses) {
  EngineConfig config;
  config.max_num_queued_reqs = 3;
  config.max_num_queued_tokens = 50;
  const auto engine = start(nullptr, config);
  engine->pause();
  const auto ignore = [](const RequestOutput&) {};
  ASSERT_TRUE(engine->submit(fake_request(20, 5), ignore).ok());
  ASSERT_TRUE(engine->submit(fake_request(20, 5), ignore).ok());
  const auto tokens = engine->submit(fake_request(20, 5), ignore);
  EXPECT_EQ(tokens.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(tokens.status().message().find("max_num_queued_tokens"), std::string::npos);
  ASSERT_TRUE(engine->submit(fake_request(5, 5), ignore).ok());
  const auto requests = engine->submit(fake_request(1, 5), ignore);
  EXPECT_EQ(requests.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(requests.status().message().find("max_num_queued_reqs"), std::string::npos);
  EXPECT_EQ(engine->stats().num_refused, 2);
  EXPECT_EQ(engine->stats().num_requests_waiting, 3);
  engine->resume();
  EXPECT_TRUE(engine->drain(60).ok());
}

TEST(LocalEngine, ABrokenBackendEndsEverythingAndStops) {
  auto engine = start([](int64_t step, const Plan&) -> Status {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (step < 2) return {};
    throw std::runtime_error("illegal address");
  });
  EXPECT_TRUE(engine->health().ok());
  std::vector<std::unique_ptr<Ending>> endings;
  for (int i = 0; i < 40; ++i) {  // more than run at once
    auto ending = std::make_unique<Ending>();
    if (!engine->submit(fake_request(20, 80), ending->sink()).ok()) break;
    endings.push_back(std::move(ending));
  }
  ASSERT_GT(endings.size(), 0u);
  for (auto& ending : endings) {
    const Status status = ending->future.get().status;
    EXPECT_NE(status.message().find("illegal address"), std::string::npos) << status.message();
  }
  while (engine->submit(fake_request(1, 80), [](const auto&) {}).ok()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto refused = engine->submit(fake_request(1, 80), [](const auto&) {});
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(refused.status().message().find("illegal address"), std::string::npos);
  EXPECT_TRUE(engine->drain(60).ok());
  engine->shutdown();
  EXPECT_NE(engine->health().message().find("illegal address"), std::string::npos);
  expect_balanced(engine->stats());
}

TEST(LocalEngine, SinksMayCallTheEngine) {
  const auto engine = start();
  Ending second;
  std::atomic<bool> asked{false};
  RequestId first_id = 0;
  engine->pause();
  Ending first;
  const auto id = engine->submit(fake_request(10, 80), [&](const RequestOutput& event) {
    if (!asked.exchange(true)) {
      EXPECT_TRUE(engine->submit(fake_request(4, 4), second.sink()).ok());
      EXPECT_EQ(engine->page_table(first_id, 0)->size(), 3u);
      EXPECT_FALSE(engine->reset_prefix_cache().ok());
      EXPECT_FALSE(engine->drain(1).ok());
      engine->cancel(first_id);
    }
    if (event.finished) first.promise.set_value(event);
  });
  first_id = *id;
  engine->resume();
  EXPECT_EQ(first.future.get().status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(second.future.get().status.ok());
  EXPECT_TRUE(engine->reset_prefix_cache().ok());
}

TEST(LocalEngine, ThePageTableOfARunningRequestCanBeRead) {
  const auto engine = start(sleep_a_little);
  Ending ending;
  const auto id = engine->submit(fake_request(10, 80), ending.sink());
  Result<std::vector<PageTableRow>> rows = engine->page_table(*id, 0);
  while (rows.ok() && rows->empty()) rows = engine->page_table(*id, 0);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  for (size_t i = 0; i < rows->size(); ++i) {
    EXPECT_EQ((*rows)[i].page, static_cast<int64_t>(i));
    EXPECT_GE((*rows)[i].block, 0);
    EXPECT_EQ((*rows)[i].reference_count, 1);
  }
  EXPECT_EQ(engine->page_table(*id + 1, 0).status().code(), StatusCode::kNotFound);
  engine->cancel(*id);
  ending.future.get();
}

// --- from a file --------------------------------------------------------------------------------

TEST(AsyncEngine, AnswersAsTheModelAloneDoes) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, {});
  EngineConfig config;
  config.threads = 1;
  config.num_gpu_blocks_override = 100;
  const auto engine = AsyncEngine::create(path, config);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_EQ((*engine)->info().max_model_len, 1024);
  LoadOptions options;
  options.threads = 1;
  const auto model = Model::load(path, options);
  ASSERT_TRUE(model.ok());
  std::vector<std::unique_ptr<Ending>> endings;
  std::vector<EngineRequest> requests;
  for (int i = 0; i < 10; ++i) {
    requests.push_back(fake_request(5 + 13 * i, 10));
    requests.back().sampling.temperature = 1;
    requests.back().sampling.seed = i;
    requests.back().output_kind = OutputKind::kFinalOnly;
    endings.push_back(std::make_unique<Ending>());
    ASSERT_TRUE((*engine)->submit(requests.back(), endings.back()->sink()).ok());
  }
  for (int i = 0; i < 10; ++i) {
    const RequestOutput event = endings[i]->future.get();
    EXPECT_EQ(event.outputs.at(0).token_ids, (*model)->generate(requests[i], nullptr)->token_ids);
  }
}

TEST(AsyncEngine, ConfigurationsAreChecked) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, {});
  const auto refused = [&](const char* expected, auto change) {
    EngineConfig config;
    change(config);
    const auto engine = AsyncEngine::create(path, config);
    ASSERT_FALSE(engine.ok()) << expected;
    EXPECT_NE(engine.status().message().find(expected), std::string::npos)
        << engine.status().message();
  };
  refused("block_size", [](EngineConfig& c) { c.block_size = 0; });
  refused("max_num_seqs", [](EngineConfig& c) { c.max_num_seqs = -1; });
  refused("max_num_batched_tokens", [](EngineConfig& c) { c.max_num_batched_tokens = 127; });
  refused("watermark", [](EngineConfig& c) { c.watermark = 1; });
  refused("admission_factor", [](EngineConfig& c) { c.admission_factor = 0.5; });
  refused("kv_cache_dtype", [](EngineConfig& c) { c.kv_cache_dtype = "int3"; });
  refused("both", [](EngineConfig& c) {
    c.num_gpu_blocks_override = 1;
    c.kv_cache_memory_bytes = 1;
  });
  refused("max_model_len to 160", [](EngineConfig& c) {
    c.max_model_len = 200;
    c.num_gpu_blocks_override = 10;
  });
  EngineConfig config;
  config.num_gpu_blocks_override = 10;
  const auto engine = AsyncEngine::create(path, config);
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ((*engine)->info().max_model_len, 160);
  EXPECT_EQ((*engine)->stats().num_blocks, 10);
}

}  // namespace
}  // namespace octavo::engine
