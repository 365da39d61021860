#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

Result<TokenId> sample(Sampler& sampler, const std::vector<float>& logits) {
  SamplerScratch scratch;
  return sampler.sample(logits, scratch);
}

std::map<TokenId, int> draw(const SamplingParams& params, const std::vector<float>& logits, int n) {
  Sampler sampler(params);
  SamplerScratch scratch;
  std::map<TokenId, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sampler.sample(logits, scratch).value()];
  return counts;
}

// ln of probabilities 0.5, 0.25, 0.15, 0.1 in mixed order, shifted: only differences count.
const std::vector<float> kLogits = {3 + std::log(0.15f), 3 + std::log(0.5f), 3 + std::log(0.1f),
                                    3 + std::log(0.25f)};

TEST(Sampler, GreedyTakesTheFirstOfEqualMaxima) {
  Sampler sampler(with(0, 0, 1, 0, 1));
  EXPECT_EQ(sample(sampler, {1, 5, 5, 2}).value(), 1);
}

TEST(Sampler, NanIsAnErrorWhereverItStands) {
  for (int position = 0; position < 3; ++position) {
    std::vector<float> logits = {1, 2, 3};
    logits[position] = NAN;
    EXPECT_FALSE(argmax(logits).ok());
    Sampler sampler(with(1, 0, 1, 0, 1));
    EXPECT_FALSE(sample(sampler, logits).ok());
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
    const TokenId id = sample(a, kLogits).value();
    EXPECT_EQ(id, sample(b, kLogits).value());
    different += id != sample(c, kLogits).value() ? 1 : 0;
  }
  EXPECT_GT(different, 0);
}

TEST(Sampler, ExtremeTemperaturesStayOnTheBestToken) {
  for (float temperature : {1e-45f, 1e-30f, 1e-6f, 1e-4f}) {
    for (float min_p : {0.0f, 0.1f, 1.0f}) {
      Sampler sampler(with(temperature, 0, 1, min_p, 1));
      EXPECT_EQ(sample(sampler, kLogits).value(), 1) << temperature << ", " << min_p;
    }
  }
}

TEST(Sampler, AnInfiniteLogitIsAnError) {
  Sampler sampler(with(1, 0, 1, 0.1f, 1));
  EXPECT_FALSE(sample(sampler, {1, INFINITY}).ok());
}

TEST(Sampler, ManyEqualLogitsAreAllReachable) {
  const std::vector<float> flat(50, -1000.0f);
  EXPECT_EQ(draw(with(1, 0, 1, 0, 8), flat, 5000).size(), 50u);
}

// --- against a sampler that sorts the whole vocabulary, in double -------------------------------

struct Likely {
  TokenId id;
  double p;  // not normalised
};

// What min_p, top_k and top_p leave, in this order. Where a rounding could decide, it is left out
// of `sure` and stays in `allowed`.
struct Oracle {
  std::map<TokenId, double> allowed;
  std::map<TokenId, double> sure;
};

Oracle keep(const SamplingParams& params, const std::vector<float>& logits) {
  constexpr double kRounding = 1e-5;
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<Likely> list;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp((logits[i] - max) / params.temperature);
    if (p >= params.min_p * (1 - kRounding)) list.push_back({static_cast<TokenId>(i), p});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Likely& a, const Likely& b) { return a.p > b.p; });
  if (params.top_k > 0) list.resize(std::min<size_t>(list.size(), params.top_k));
  double total = 0;
  for (const Likely& one : list) total += one.p;
  Oracle oracle;
  double before = 0;
  for (const Likely& one : list) {
    const double share = before / total;
    if (share < params.top_p * (1 + kRounding)) oracle.allowed[one.id] = one.p;
    const bool clear = one.p > params.min_p * (1 + kRounding);
    if (clear && share < params.top_p * (1 - kRounding)) oracle.sure[one.id] = one.p;
    before += one.p;
  }
  return oracle;
}

std::vector<float> random_logits(Rng& rng, size_t size) {
  const double spread = std::array{0.0, 0.5, 3.0, 30.0}[rng.next_u64() % 4];
  const bool coarse = rng.next_u64() % 3 == 0;  // many are equal
  std::vector<float> logits(size);
  for (float& x : logits) {
    const double value = spread * (rng.next_double() + rng.next_double() - 1);
    x = static_cast<float>(coarse ? std::round(value) : value);
    if (rng.next_u64() % 10 == 0) x = -INFINITY;
  }
  logits[rng.next_u64() % size] = 1;
  return logits;
}

TEST(Sampler, DrawsOnlyWhatAFullSortWouldKeep) {
  Rng rng(7);
  SamplerScratch scratch;
  for (int round = 0; round < 400; ++round) {
    const size_t size = 1 + rng.next_u64() % (round % 10 == 0 ? 5000 : 700);
    const std::vector<float> logits = random_logits(rng, size);
    SamplingParams params = with(0.5f + static_cast<float>(rng.next_double()), 0, 1, 0, round);
    if (rng.next_u64() % 2 == 0) params.top_k = 1 + static_cast<int32_t>(rng.next_u64() % 60);
    if (rng.next_u64() % 2 == 0)
      params.top_p = 0.05f + 0.9f * static_cast<float>(rng.next_double());
    if (rng.next_u64() % 3 == 0) params.min_p = static_cast<float>(rng.next_double());
    const Oracle oracle = keep(params, logits);
    Sampler sampler(params);
    for (int i = 0; i < 30; ++i) {
      const TokenId id = sampler.sample(logits, scratch).value();
      ASSERT_TRUE(oracle.allowed.contains(id)) << "round " << round << ", token " << id;
      ASSERT_GT(logits[id], -INFINITY);
    }
  }
}

// Chi-squared: its mean is the number of outcomes less one, its deviation the root of twice that.
TEST(Sampler, FrequenciesFollowTheOracleWithEveryCut) {
  constexpr int kDraws = 20000;
  Rng rng(11);
  for (const SamplingParams& params :
       {with(1, 0, 1, 0, 1), with(1, 20, 1, 0, 2), with(1, 0, 0.8f, 0, 3), with(1, 0, 1, 0.2f, 4),
        with(0.7f, 40, 0.9f, 0.1f, 5), with(1.4f, 0, 0.3f, 0.01f, 6)}) {
    std::vector<float> logits(700);
    for (float& x : logits) x = static_cast<float>(2 * rng.next_double());
    const Oracle oracle = keep(params, logits);
    ASSERT_EQ(oracle.allowed.size(), oracle.sure.size());
    double total = 0;
    for (const auto& [id, p] : oracle.sure) total += p;
    const auto counts = draw(params, logits, kDraws);
    double chi_squared = 0;
    for (const auto& [id, p] : oracle.sure) {
      const double expected = kDraws * p / total;
      const auto found = counts.find(id);
      const double difference = (found == counts.end() ? 0 : found->second) - expected;
      chi_squared += difference * difference / expected;
    }
    const auto freedom = static_cast<double>(oracle.sure.size() - 1);
    EXPECT_NEAR(chi_squared, freedom, 5 * std::sqrt(2 * freedom))
        << params.top_k << ", " << params.top_p << ", " << params.min_p;
  }
}

// Builds with sanitizers use narrower vectors than others: these hold for both.
TEST(Sampler, ASeedGivesTheseTokensOnEveryMachine) {
  std::vector<float> logits(49152);
  Rng rng(3);
  for (float& x : logits) x = static_cast<float>(12 * (rng.next_double() + rng.next_double()));
  const auto first = [&](const SamplingParams& params) {
    Sampler sampler(params);
    SamplerScratch scratch;
    std::vector<TokenId> ids;
    for (int i = 0; i < 6; ++i) ids.push_back(sampler.sample(logits, scratch).value());
    return ids;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(first(with(1, 0, 1, 0, 5)), (Ids{13193, 29650, 31947, 40615, 24712, 38969}));
  EXPECT_EQ(first(with(1, 50, 1, 0, 5)), (Ids{14195, 17118, 35330, 30661, 46358, 48955}));
  EXPECT_EQ(first(with(1, 0, 0.9f, 0, 5)), (Ids{12983, 29680, 32007, 40617, 24657, 39060}));
  EXPECT_EQ(first(with(1.3f, 0, 1, 0.1f, 5)), (Ids{13202, 29852, 32193, 40638, 24712, 39160}));
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
