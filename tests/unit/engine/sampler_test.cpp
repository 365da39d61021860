#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace octavo::engine {
namespace {

SamplingParams with(float temperature, int32_t top_k, float top_p, float min_p, uint64_t seed) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  params.seed = seed;
  return params;
}

std::map<TokenId, int> draw(const SamplingParams& params, const std::vector<float>& logits, int n) {
  Sampler sampler(params);
  std::map<TokenId, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sampler.sample(logits).value()];
  return counts;
}

// ln of probabilities 0.5, 0.25, 0.15, 0.1 in mixed order, shifted: only differences count.
const std::vector<float> kLogits = {3 + std::log(0.15f), 3 + std::log(0.5f), 3 + std::log(0.1f),
                                    3 + std::log(0.25f)};

TEST(Sampler, GreedyTakesTheFirstOfEqualMaxima) {
  Sampler sampler(with(0, 0, 1, 0, 1));
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 5, 5, 2}).value(), 1);
}

TEST(Sampler, NanIsAnErrorWhereverItStands) {
  for (int position = 0; position < 3; ++position) {
    std::vector<float> logits = {1, 2, 3};
    logits[position] = NAN;
    EXPECT_FALSE(argmax(logits).ok());
    EXPECT_FALSE(Sampler(with(1, 0, 1, 0, 1)).sample(logits).ok());
  }
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  constexpr int kDraws = 40000;
  const auto counts = draw(with(1, 0, 1, 0, 42), kLogits, kDraws);
  const double expected[] = {0.15, 0.5, 0.1, 0.25};
  for (TokenId id = 0; id < 4; ++id) {
    EXPECT_NEAR(static_cast<double>(counts.at(id)) / kDraws, expected[id], 0.01) << id;
  }
}

TEST(Sampler, TemperatureSharpens) {
  constexpr int kDraws = 20000;
  const auto counts = draw(with(0.5f, 0, 1, 0, 3), kLogits, kDraws);
  const double square_sum = 0.25 + 0.0625 + 0.0225 + 0.01;  // p^2 renormalised
  EXPECT_NEAR(static_cast<double>(counts.at(1)) / kDraws, 0.25 / square_sum, 0.015);
}

TEST(Sampler, CutsKeepExactlyTheirTokens) {
  const auto ids = [](const std::map<TokenId, int>& counts) {
    std::vector<TokenId> list;
    for (const auto& [id, count] : counts) list.push_back(id);
    return list;
  };
  EXPECT_EQ(ids(draw(with(1, 2, 1, 0, 5), kLogits, 2000)), (std::vector<TokenId>{1, 3}));
  // 0.5 + 0.25 reach 0.7; one alone does not.
  EXPECT_EQ(ids(draw(with(1, 0, 0.7f, 0, 5), kLogits, 2000)), (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(ids(draw(with(1, 0, 0.01f, 0, 5), kLogits, 2000)), (std::vector<TokenId>{1}));
  // 0.15 >= 0.28 * 0.5, 0.1 is not.
  EXPECT_EQ(ids(draw(with(1, 0, 1, 0.28f, 5), kLogits, 2000)), (std::vector<TokenId>{0, 1, 3}));
  EXPECT_EQ(ids(draw(with(1, 1, 1, 0, 5), kLogits, 200)), (std::vector<TokenId>{1}));
  EXPECT_EQ(ids(draw(with(1, -1, 1, 0, 5), kLogits, 4000)), (std::vector<TokenId>{0, 1, 2, 3}));
}

TEST(Sampler, ASeedGivesTheSameSequence) {
  Sampler a(with(1, 0, 1, 0, 99));
  Sampler b(with(1, 0, 1, 0, 99));
  Sampler c(with(1, 0, 1, 0, 100));
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const TokenId id = a.sample(kLogits).value();
    EXPECT_EQ(id, b.sample(kLogits).value());
    different += id != c.sample(kLogits).value() ? 1 : 0;
  }
  EXPECT_GT(different, 0);
}

TEST(Sampler, ExtremeTemperaturesStayOnTheBestToken) {
  for (float temperature : {1e-45f, 1e-30f, 1e-6f, 1e-4f}) {
    for (float min_p : {0.0f, 0.1f, 1.0f}) {
      Sampler sampler(with(temperature, 0, 1, min_p, 1));
      EXPECT_EQ(sampler.sample(kLogits).value(), 1) << temperature << ", " << min_p;
    }
  }
}

TEST(Sampler, AnInfiniteLogitIsAnError) {
  EXPECT_FALSE(Sampler(with(1, 0, 1, 0.1f, 1)).sample(std::vector<float>{1, INFINITY}).ok());
}

TEST(Sampler, ManyEqualLogitsAreAllReachable) {
  const std::vector<float> flat(50, -1000.0f);
  EXPECT_EQ(draw(with(1, 0, 1, 0, 8), flat, 5000).size(), 50u);
}

TEST(SamplingParams, RangesAreChecked) {
  const auto refused = [](auto change) {
    SamplingParams params;
    change(params);
    return validate_sampling(params);
  };
  EXPECT_TRUE(refused([](SamplingParams&) {}).ok());
  const auto expect_names = [](const Status& status, const char* field) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(field), std::string::npos) << status.message();
  };
  for (float bad : {-0.1f, static_cast<float>(NAN), static_cast<float>(INFINITY)}) {
    expect_names(refused([=](SamplingParams& p) { p.temperature = bad; }), "temperature");
  }
  for (float bad : {0.0f, -1.0f, 1.1f, static_cast<float>(NAN)}) {
    expect_names(refused([=](SamplingParams& p) { p.top_p = bad; }), "top_p");
  }
  for (float bad : {-0.1f, 1.1f, static_cast<float>(NAN)}) {
    expect_names(refused([=](SamplingParams& p) { p.min_p = bad; }), "min_p");
  }
  expect_names(refused([](SamplingParams& p) { p.top_k = -2; }), "top_k");
  expect_names(refused([](SamplingParams& p) { p.max_tokens = 0; }), "max_tokens");
  expect_names(refused([](SamplingParams& p) { p.stop = {"a", ""}; }), "stop");
  for (float bad : {0.0f, -1.0f, static_cast<float>(NAN)}) {
    expect_names(refused([=](SamplingParams& p) { p.repetition_penalty = bad; }),
                 "repetition_penalty");
  }
  for (float bad : {-2.1f, 2.1f, static_cast<float>(NAN)}) {
    expect_names(refused([=](SamplingParams& p) { p.presence_penalty = bad; }), "presence_penalty");
    expect_names(refused([=](SamplingParams& p) { p.frequency_penalty = bad; }),
                 "frequency_penalty");
  }
  expect_names(refused([](SamplingParams& p) { p.logit_bias = {{1, 101}}; }), "logit_bias");
  expect_names(refused([](SamplingParams& p) { p.logprobs = 21; }), "logprobs");
  expect_names(refused([](SamplingParams& p) { p.prompt_logprobs = -1; }), "prompt_logprobs");
  expect_names(refused([](SamplingParams& p) {
                 p.max_tokens = 3;
                 p.min_tokens = 4;
               }),
               "min_tokens");
}

}  // namespace
}  // namespace octavo::engine
