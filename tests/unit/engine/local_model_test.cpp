// The public Model on a tiny file: generation, limits, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stop_token>
#include <thread>

#include "octavo/model.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo {
namespace {

using testing::TinyLlama;

std::unique_ptr<Model> load(const TinyLlama& spec, const LoadOptions& options = {}) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, spec);
  auto model = Model::load(path, options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return std::move(*model);
}

Request request_for(std::vector<TokenId> prompt, int64_t max_tokens) {
  Request request;
  request.prompt_token_ids = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> counting(int64_t n) {
  std::vector<TokenId> ids(n);
  for (int64_t i = 0; i < n; ++i) ids[i] = static_cast<TokenId>(i * 7 % 101);
  return ids;
}

// A KV-cached greedy run must choose what recomputing everything chooses.
TEST(LocalModel, GreedyMatchesRecomputation) {
  const auto model = load({});
  const auto generation = model->generate(request_for(counting(20), 12), nullptr).value();
  ASSERT_EQ(generation.token_ids.size(), 12u);
  EXPECT_EQ(generation.finish_reason, FinishReason::kLength);
  std::vector<TokenId> ids = counting(20);
  for (const TokenId expected : generation.token_ids) {
    const auto logits = model->logits(ids, LogitsPositions::kLast).value();
    const auto best = std::max_element(logits.values.begin(), logits.values.end());
    EXPECT_EQ(best - logits.values.begin(), expected);
    ids.push_back(expected);
  }
}

TEST(LocalModel, ACachedPrefixChangesNothing) {
  const auto model = load({});
  const auto fresh = load({});
  auto first = model->generate(request_for(counting(40), 8), nullptr).value();
  EXPECT_EQ(first.usage.cached_tokens, 0);
  std::vector<TokenId> longer = counting(40);
  longer.insert(longer.end(), first.token_ids.begin(), first.token_ids.end());
  longer.push_back(3);
  for (const auto& prompt : {longer, counting(40), counting(33), std::vector<TokenId>{5}, longer}) {
    const auto warm = model->generate(request_for(prompt, 10), nullptr).value();
    const auto cold = fresh->logits(prompt, LogitsPositions::kLast).value();
    EXPECT_EQ(warm.token_ids[0],
              std::max_element(cold.values.begin(), cold.values.end()) - cold.values.begin());
    EXPECT_LT(warm.usage.cached_tokens, static_cast<int64_t>(prompt.size()));
  }
  const auto again = model->generate(request_for(longer, 10), nullptr).value();
  EXPECT_EQ(again.usage.cached_tokens, static_cast<int64_t>(longer.size()) - 1);
}

// Walking through a text in pieces, forth and back, gives what one computation gives, bit for bit.
TEST(LocalModel, LogitsFromAnyPosition) {
  const auto model = load({});
  const std::vector<TokenId> ids = counting(600);
  const Logits whole = load({})->logits(ids, LogitsPositions::kAll).value();
  struct Piece {
    int64_t first, end;
  };
  for (const Piece piece : {Piece{0, 5}, Piece{5, 300}, Piece{300, 301}, Piece{301, 600},
                            Piece{299, 300}, Piece{0, 600}, Piece{599, 600}, Piece{20, 30}}) {
    const auto logits = model->logits_from(std::span(ids).first(piece.end), piece.first).value();
    EXPECT_EQ(logits.num_positions, piece.end - piece.first);
    EXPECT_TRUE(std::equal(logits.values.begin(), logits.values.end(),
                           whole.values.begin() + piece.first * whole.vocab_size))
        << piece.first;
  }
  std::vector<TokenId> other = ids;
  other[250] = 1;
  const Logits changed = load({})->logits(other, LogitsPositions::kLast).value();
  EXPECT_EQ(model->logits_from(other, 599).value().values, changed.values);
  for (const int64_t first : {int64_t{-1}, int64_t{600}}) {
    EXPECT_EQ(model->logits_from(ids, first).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(model->logits_from({}, 0).ok());
}

TEST(LocalModel, MemoryIsMeasuredAsItIsLoaded) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, {});
  const auto model = Model::load(path, {}).value();
  const MemoryNeeds needs = measure_memory(path, {}).value();
  EXPECT_EQ(needs.weight_bytes, model->info().weight_bytes);
  EXPECT_EQ(needs.max_model_len, model->info().max_model_len);
  // 2 layers of keys and values of 2 heads of 16, in float32.
  LoadOptions options;
  options.kv_cache_dtype = "float32";
  EXPECT_EQ(measure_memory(path, options).value().kv_bytes_per_token, 2 * 2 * 2 * 16 * 4);
  options.kv_cache_dtype = "bfloat16";
  EXPECT_EQ(measure_memory(path, options).value().kv_bytes_per_token, 2 * 2 * 2 * 16 * 2);
  options.kv_cache_dtype = "int8";  // and a scale for each head
  EXPECT_EQ(measure_memory(path, options).value().kv_bytes_per_token, 2 * 2 * 2 * (16 + 4));
  EXPECT_GT(needs.workspace_bytes, 512 * (2 * 64 + 2 * 96) * 4);  // x, gate and up at the least

  TinyLlama broken;
  broken.edit_tensor = [](std::string& name, DType&, Shape&) {
    return name != "output_norm.weight";
  };
  testing::write_tiny_llama(path, broken);
  const auto refused = measure_memory(path, {});
  EXPECT_EQ(refused.status().message(), Model::load(path, {}).status().message());
  EXPECT_NE(refused.status().message().find("output_norm.weight"), std::string::npos);
}

// Up to 24 tokens this model rotates as it was trained; beyond, by how long a sequence will be. A
// prefix that was rotated otherwise must not be reused, and each answer is that of a fresh model.
TEST(LocalModel, APrefixThatWasRotatedOtherwiseIsNotReused) {
  const std::string path = OCTAVO_TEST_DATA "/goldens/llama_dynamic";
  const auto model = Model::load(path, {}).value();
  EXPECT_EQ(model->info().max_model_len, 192);
  struct Turn {
    int64_t max_tokens;
    int64_t cached_tokens;
  };
  for (const Turn turn : {Turn{4, 0}, {14, 9}, {15, 0}, {15, 9}, {40, 0}, {4, 0}, {1000, 0}}) {
    auto request = request_for(counting(10), turn.max_tokens);
    request.sampling.ignore_eos = true;
    const auto generation = model->generate(request, nullptr).value();
    EXPECT_EQ(generation.usage.cached_tokens, turn.cached_tokens) << turn.max_tokens;
    const auto fresh = Model::load(path, {}).value()->generate(request, nullptr).value();
    EXPECT_EQ(generation.token_ids, fresh.token_ids) << turn.max_tokens;
  }
}

TEST(LocalModel, StopTokensAndSinkEndTheAnswer) {
  const auto model = load({});
  const auto all = model->generate(request_for(counting(9), 20), nullptr).value();
  Request request = request_for(counting(9), 20);
  request.sampling.stop_token_ids = {all.token_ids[4]};
  const auto stopped = model->generate(request, nullptr).value();
  EXPECT_EQ(stopped.finish_reason, FinishReason::kStop);
  EXPECT_LE(stopped.token_ids.size(), 5u);
  EXPECT_EQ(stopped.token_ids.back(), all.token_ids[4]);

  int calls = 0;
  const auto aborted =
      model->generate(request_for(counting(9), 20), [&](std::string_view) { return ++calls < 3; })
          .value();
  EXPECT_EQ(aborted.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(aborted.token_ids.size(), 3u);
  EXPECT_EQ(calls, 3);
}

TEST(LocalModel, AnyThreadCancels) {
  const auto model = load({});
  const auto whole = model->generate(request_for(counting(9), 20), nullptr).value();
  std::stop_source source;
  Request request = request_for(counting(9), 20);
  request.cancel = source.get_token();
  int calls = 0;
  const auto cancel_at_the_third = [&](std::string_view) {
    if (++calls == 3) std::jthread([&] { source.request_stop(); }).join();
    return true;
  };
  const auto cancelled = model->generate(request, cancel_at_the_third).value();
  EXPECT_EQ(cancelled.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(cancelled.usage.completion_tokens, 3);
  EXPECT_TRUE(
      std::equal(cancelled.token_ids.begin(), cancelled.token_ids.end(), whole.token_ids.begin()));
  const auto too_late = model->generate(request, nullptr).value();  // cancelled before it begins
  EXPECT_EQ(too_late.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(too_late.token_ids.size(), 0u);
  request.cancel = {};
  EXPECT_EQ(model->generate(request, nullptr)->token_ids, whole.token_ids);
}

TEST(LocalModel, CancelsWithinALongPrompt) {
  const auto model = load({});
  std::stop_source source;
  Request request = request_for(counting(1000), 5);  // two chunks
  request.cancel = source.get_token();
  const auto cancelled = model
                             ->generate(request,
                                        [&](std::string_view) {
                                          source.request_stop();
                                          return true;
                                        })
                             .value();
  EXPECT_EQ(cancelled.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(cancelled.token_ids.size(), 0u);
  // The chunk that was computed is not lost.
  request.cancel = {};
  EXPECT_EQ(model->generate(request, nullptr)->usage.cached_tokens, 512);
}

TEST(LocalModel, ConfiguredEndTokensCountWithoutATokenizer) {
  const auto all = load({})->generate(request_for(counting(9), 20), nullptr).value();
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    TinyLlama spec;
    spec.edit_metadata = [&](JsonObject& metadata) { metadata[key] = all.token_ids[4]; };
    const auto model = load(spec);
    const auto stopped = model->generate(request_for(counting(9), 20), nullptr).value();
    EXPECT_EQ(stopped.finish_reason, FinishReason::kStop);
    EXPECT_EQ(stopped.token_ids.back(), all.token_ids[4]);
    EXPECT_LE(stopped.token_ids.size(), 5u);
    Request request = request_for(counting(9), 20);
    request.sampling.ignore_eos = true;
    EXPECT_EQ(model->generate(request, nullptr)->token_ids, all.token_ids);
  }
}

TEST(LocalModel, TheContextEndsAnAnswer) {
  LoadOptions options;
  options.max_model_len = 50;
  const auto model = load({}, options);
  Request request = request_for(counting(40), 1000);
  const auto generation = model->generate(request, nullptr).value();
  EXPECT_EQ(generation.token_ids.size(), 10u);
  EXPECT_EQ(generation.finish_reason, FinishReason::kLength);
  for (const int64_t length : {50, 51, 5000}) {
    const auto refused = model->generate(request_for(counting(length), 5), nullptr);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("50"), std::string::npos);
  }
}

TEST(LocalModel, RefusesBadPrompts) {
  const auto model = load({});
  for (const std::vector<TokenId>& bad :
       {std::vector<TokenId>{}, std::vector<TokenId>{1, -1}, std::vector<TokenId>{101}}) {
    const auto generation = model->generate(request_for(bad, 5), nullptr);
    ASSERT_FALSE(generation.ok());
    EXPECT_EQ(generation.status().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(model->logits(bad, LogitsPositions::kLast).ok());
  }
  EXPECT_TRUE(model->generate(request_for({1}, 5), nullptr).ok());
}

// A model of this size has no vocabulary of its own; what follows needs none.
TEST(LocalModel, LogprobsAgreeWithTheLogits) {
  const auto model = load({});
  Request request = request_for(counting(300), 6);  // more than one chunk
  request.sampling.logprobs = 3;
  request.sampling.prompt_logprobs = 0;
  const auto generation = model->generate(request, nullptr).value();
  ASSERT_EQ(generation.logprobs.size(), 6u);
  ASSERT_EQ(generation.prompt_logprobs.size(), 299u);
  std::vector<TokenId> ids = counting(300);
  ids.insert(ids.end(), generation.token_ids.begin(), generation.token_ids.end());
  const auto logits = model->logits(ids, LogitsPositions::kAll).value();
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const auto& actual =
        i + 1 < 300 ? generation.prompt_logprobs[i] : generation.logprobs[i + 1 - 300];
    const float* row = &logits.values[i * logits.vocab_size];
    double sum = 0;
    for (int64_t j = 0; j < logits.vocab_size; ++j) sum += std::exp(static_cast<double>(row[j]));
    EXPECT_EQ(actual.token.token_id, ids[i + 1]);
    EXPECT_NEAR(actual.token.logprob, row[ids[i + 1]] - std::log(sum), 1e-4);
  }
  EXPECT_EQ(generation.logprobs[0].top.size(), 3u);
  EXPECT_EQ(generation.logprobs[0].token.rank, 1);  // greedy
}

TEST(LocalModel, BansAndBiasSteerTheAnswer) {
  const auto model = load({});
  const auto plain = model->generate(request_for(counting(9), 6), nullptr).value();
  Request request = request_for(counting(9), 6);
  request.sampling.logit_bias = {{plain.token_ids[0], -100}};
  EXPECT_NE(model->generate(request, nullptr)->token_ids[0], plain.token_ids[0]);
  request.sampling.logit_bias.clear();
  request.sampling.allowed_token_ids = {8};
  EXPECT_EQ(model->generate(request, nullptr)->token_ids, std::vector<TokenId>(6, 8));
  request.sampling.min_tokens = 1;
  request.sampling.stop_token_ids = {8};
  const auto nothing_left = model->generate(request, nullptr);
  ASSERT_FALSE(nothing_left.ok());
  EXPECT_NE(nothing_left.status().message().find("no token is left"), std::string::npos);
}

TEST(LocalModel, LatencyRunsOfEveryBatchSize) {
  const auto model = load({});
  for (const int64_t batch_size : {1, 3, 40}) {
    const auto run = model->measure_latency(batch_size, 70, 4);
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_GT(run->prefill_s, 0);
    EXPECT_GT(run->decode_s, 0);
  }
  EXPECT_FALSE(model->measure_latency(0, 1, 1).ok());
  EXPECT_FALSE(model->measure_latency(1, 2000, 1).ok());
}

TEST(LocalModel, OptionsAreChecked) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, {});
  const auto refused = [&](auto change, const char* expected) {
    LoadOptions options;
    change(options);
    const auto model = Model::load(path, options);
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.status().message().find(expected), std::string::npos)
        << model.status().message();
  };
  refused([](LoadOptions& o) { o.backend = "tpu"; }, "tpu");
  refused([](LoadOptions& o) { o.dtype = "float8"; }, "float8");
  refused([](LoadOptions& o) { o.kv_cache_dtype = "int3"; }, "int3");
  refused([](LoadOptions& o) { o.attn_implementation = "flash"; }, "'flash'");
  refused([](LoadOptions& o) { o.attn_implementation = "flash_attention_3"; }, "has no GPU");
  refused([](LoadOptions& o) { o.max_model_len = 4096; }, "4096");
  refused([](LoadOptions& o) { o.threads = -1; }, "threads");
}

}  // namespace
}  // namespace octavo
