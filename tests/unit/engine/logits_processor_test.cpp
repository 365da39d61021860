#include "engine/logits_processor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/logprobs.h"
#include "grammar/grammar_cache.h"
#include "support/piece_tokenizer.h"

namespace octavo::engine {
namespace {

constexpr float kBanned = -INFINITY;

// The logits 1, 2, 3, 4, -1, -2 after the request's rules, with `output` generated so far.
std::vector<float> processed(const Request& request, const std::vector<TokenId>& output) {
  auto processor = LogitsProcessor::create(request, nullptr, 6).value();
  for (const TokenId id : output) processor.push(id);
  std::vector<float> logits = {1, 2, 3, 4, -1, -2};
  processor.apply(logits, output);
  return logits;
}

Request prompt(std::vector<TokenId> ids) {
  Request request;
  request.prompt_token_ids = std::move(ids);
  return request;
}

TEST(LogitsProcessor, NothingAskedNothingChanged) {
  EXPECT_FALSE(LogitsProcessor::create(prompt({1}), nullptr, 6)->active());
  EXPECT_EQ(processed(prompt({1}), {2}), (std::vector<float>{1, 2, 3, 4, -1, -2}));
}

TEST(LogitsProcessor, RepetitionPenaltyCoversPromptAndOutput) {
  Request request = prompt({0, 4, 4});
  request.sampling.repetition_penalty = 2;
  EXPECT_EQ(processed(request, {3, 3}), (std::vector<float>{0.5, 2, 3, 2, -2, -2}));
}

TEST(LogitsProcessor, PresenceAndFrequencyCoverTheOutputOnly) {
  Request request = prompt({0});
  request.sampling.presence_penalty = 0.5;
  EXPECT_EQ(processed(request, {3, 3}), (std::vector<float>{1, 2, 3, 3.5, -1, -2}));
  request.sampling.frequency_penalty = 1;
  EXPECT_EQ(processed(request, {3, 3, 1}), (std::vector<float>{1, 0.5, 3, 1.5, -1, -2}));
}

// As in vLLM the bias comes before the penalties: (1 + 3) / 2, not 1 / 2 + 3.
TEST(LogitsProcessor, BiasComesBeforePenalties) {
  Request request = prompt({0});
  request.sampling.repetition_penalty = 2;
  request.sampling.logit_bias = {{0, 3}, {5, -1}};
  EXPECT_EQ(processed(request, {}), (std::vector<float>{2, 2, 3, 4, -1, -3}));
}

TEST(LogitsProcessor, AllowedIdsBanTheRest) {
  Request request = prompt({0});
  request.sampling.allowed_token_ids = {1, 4};
  EXPECT_EQ(processed(request, {}),
            (std::vector<float>{kBanned, 2, kBanned, kBanned, -1, kBanned}));
}

TEST(LogitsProcessor, StopTokensAreBannedUntilMinTokens) {
  Request request = prompt({0});
  request.sampling.min_tokens = 2;
  request.sampling.stop_token_ids = {3};
  EXPECT_EQ(processed(request, {1})[3], kBanned);
  EXPECT_EQ(processed(request, {1, 1})[3], 4);
}

TEST(LogitsProcessor, IdsOutsideTheVocabularyAreNamed) {
  const auto refused = [](auto change, const char* field) {
    Request request = prompt({0});
    change(request.sampling);
    const auto processor = LogitsProcessor::create(request, nullptr, 6);
    ASSERT_FALSE(processor.ok());
    EXPECT_NE(processor.status().message().find(field), std::string::npos);
  };
  refused([](SamplingParams& p) { p.logit_bias = {{6, 1}}; }, "logit_bias");
  refused([](SamplingParams& p) { p.allowed_token_ids = {-1}; }, "allowed_token_ids");
  refused([](SamplingParams& p) { p.stop_token_ids = {7}; }, "stop_token_ids");
  refused([](SamplingParams& p) { p.bad_words = {"a"}; }, "bad_words");
  refused([](SamplingParams& p) { p.bad_words = {""}; }, "bad_words");
}

TEST(Logprobs, AreTheLogSoftmaxWithRanks) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  const TokenLogprobs result = token_logprobs(logits, 2, 2);
  EXPECT_NEAR(result.token.logprob, std::log(0.3), 1e-6);
  EXPECT_EQ(result.token.rank, 2);
  ASSERT_EQ(result.top.size(), 2u);
  EXPECT_EQ(result.top[0].token_id, 1);
  EXPECT_NEAR(result.top[0].logprob, std::log(0.6), 1e-6);
  EXPECT_EQ(result.top[1].token_id, 2);
  EXPECT_TRUE(token_logprobs(logits, 0, 0).top.empty());
  EXPECT_EQ(token_logprobs(logits, 0, 20).top.size(), 3u);
}

TEST(Logprobs, TiesGoToTheLowerId) {
  const TokenLogprobs result = token_logprobs(std::vector<float>{5, 5, 5}, 1, 3);
  EXPECT_EQ(result.token.rank, 2);
  EXPECT_EQ(result.top[0].token_id, 0);
  EXPECT_EQ(result.top[2].token_id, 2);
}

// A row of a grammar goes to the host, masked before all else; what it leaves is the distribution
// that logprobs are of, and it wins over min_tokens.
TEST(LogitsProcessor, GrammarMasksBeforeAllElse) {
  const testing::PieceTokenizer tokenizer;
  const auto vocab_size = tokenizer.vocab_size();
  const auto id_of = [](char c) { return testing::PieceTokenizer::kFirstByte + c; };
  Request request = prompt({5});
  request.sampling.min_tokens = 10;
  request.sampling.temperature = 0;
  StructuredOutputs outputs;
  outputs.choice = {"x", "y"};
  auto processor = LogitsProcessor::create(request, &tokenizer, vocab_size).value();
  processor.constrain(grammar::GrammarCache(&tokenizer).matcher(outputs).value());
  Sampler sampler(request.sampling);
  SamplerScratch scratch;
  EXPECT_EQ(draw_by_rules(request.sampling, processor, sampler).kind, ops::DrawKind::kNone);

  std::vector<float> logits(static_cast<size_t>(vocab_size));
  logits[static_cast<size_t>(id_of('q'))] = 50;
  logits[static_cast<size_t>(id_of('y'))] = 1;
  EXPECT_EQ(choose_by_rules(logits, {}, processor, sampler, scratch).value(), id_of('y'));
  const auto logprobs = logprobs_by_rules(logits, id_of('y'), 5, processor, scratch).value();
  EXPECT_NEAR(logprobs.token.logprob, -std::log1p(std::exp(-1.0)), 1e-6);
  ASSERT_EQ(logprobs.top.size(), 2u);
  EXPECT_EQ(logprobs.top[1].token_id, id_of('x'));

  processor.push(id_of('y'));
  const std::vector<TokenId> output = {id_of('y')};
  EXPECT_EQ(choose_by_rules(logits, output, processor, sampler, scratch).value(),
            tokenizer.eos_id());
  processor.push(id_of('q'));  // against the mask
  EXPECT_FALSE(choose_by_rules(logits, output, processor, sampler, scratch).ok());
}

}  // namespace
}  // namespace octavo::engine
