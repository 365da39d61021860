// Who draws makes no difference: the op of `ref`, the twin of a GPU's, gives the sampler's tokens;
// and an engine takes what its executor drew for the requests whose rules allow it, and no others.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/ref/ref.h"
#include "base/rng.h"
#include "engine/engine_core.h"
#include "engine/sampler.h"
#include "support/letter_tokenizer.h"
#include "unit/engine/fake_executor.h"

namespace octavo::engine {
namespace {

constexpr int64_t kRowSizes[] = {1, 2, 7, 255, 256, 257, 1000, 4096, 4097, 33000};

float random_logit(Rng& rng, float spread) {
  float sum = 0;
  for (int i = 0; i < 6; ++i) sum += static_cast<float>(rng.next_double()) - 0.5f;
  return spread * sum;
}

std::vector<float> random_values(Rng& rng, int64_t size) {
  constexpr float kSpreads[] = {0, 0.1f, 3, 40};
  const float spread = kSpreads[rng.next_u64() % 4];
  const bool ties = rng.next_u64() % 2 == 0;
  std::vector<float> row(size);
  for (float& x : row) {
    x = random_logit(rng, spread);
    if (ties) x = std::round(x);
    if (rng.next_u64() % 50 == 0) x = -INFINITY;
  }
  row[rng.next_u64() % size] = 1;
  return row;
}

SamplingParams random_params(Rng& rng) {
  constexpr float kTemperatures[] = {0, 0.3f, 1, 2};
  SamplingParams params;
  params.temperature = kTemperatures[rng.next_u64() % 4];
  if (rng.next_u64() % 3 == 0) params.top_k = static_cast<int32_t>(rng.next_u64() % 80);
  if (rng.next_u64() % 2 == 0) params.top_p = 1 - 0.999f * static_cast<float>(rng.next_double());
  if (rng.next_u64() % 4 == 0) params.min_p = static_cast<float>(rng.next_double());
  params.seed = rng.next_u64();
  return params;
}

TokenId draw(const std::vector<float>& row, const ops::RowDraw& rule) {
  ops::ExecContext ctx;
  TokenId id = -2;
  const auto size = static_cast<int64_t>(row.size());
  backends::ref::draw_tokens(
      ctx, {&id, ops::Mat(const_cast<float*>(row.data()), DType::kF32, 1, size), &rule});
  return id;
}

TEST(DrawTokens, OfRefAreTheSamplers) {
  Rng rng(1);
  SamplerScratch scratch;
  for (int round = 0; round < 1000; ++round) {
    const std::vector<float> row =
        random_values(rng, kRowSizes[rng.next_u64() % std::size(kRowSizes)]);
    const SamplingParams params = random_params(rng);
    Sampler sampler(params);
    for (int i = 0; i < 3; ++i) {
      const TokenId drawn = draw(row, sampler.next_draw());
      ASSERT_EQ(drawn, sampler.sample(row, scratch).value())
          << "round " << round << ": " << row.size() << " logits, temperature "
          << params.temperature << ", top_k " << params.top_k << ", top_p " << params.top_p
          << ", min_p " << params.min_p;
    }
  }
}

TEST(DrawTokens, MovingOnIsWhatADrawDoes) {
  Rng rng(2);
  const std::vector<float> row = random_values(rng, 300);
  SamplingParams params;
  params.temperature = 2;
  params.seed = 5;
  Sampler drawing(params), told(params);
  SamplerScratch scratch;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(drawing.next_draw().share, told.next_draw().share);
    ASSERT_TRUE(drawing.sample(row, scratch).ok());
    told.move_on();
  }
}

TEST(DrawTokens, RowsThatNeedALookHaveNone) {
  ops::RowDraw greedy, random;
  greedy.kind = ops::DrawKind::kGreedy;
  random.kind = ops::DrawKind::kRandom;
  for (const ops::RowDraw& rule : {greedy, random}) {
    EXPECT_EQ(draw({0, -1000, -1000}, rule), 0);
    EXPECT_EQ(draw({-1000, 0, NAN}, rule), -1);
    EXPECT_EQ(draw({NAN, 0, 1}, rule), -1);
    EXPECT_EQ(draw({0, INFINITY}, rule), -1);
    EXPECT_EQ(draw({-INFINITY, -INFINITY}, rule), -1);
  }
  EXPECT_EQ(draw({1, 2}, {}), -1);
}

// Draws what plans ask for, one id on from what the logits say, so that it can be seen who chose.
class DrawingExecutor : public FakeExecutor {
 public:
  explicit DrawingExecutor(int64_t vocab_size) : FakeExecutor(vocab_size) {}

  Status execute_async(const Plan& plan) override {
    draws_ = plan.draws;
    return FakeExecutor::execute_async(plan);
  }

  Result<StepOutput> wait() override {
    StepOutput output = OCTAVO_TRY(FakeExecutor::wait());
    EXPECT_EQ(static_cast<int64_t>(draws_.size()), output.logits.rows);
    tokens_.assign(draws_.size(), -1);
    for (size_t i = 0; i < draws_.size(); ++i) {
      if (draws_[i].kind == ops::DrawKind::kNone) continue;
      const std::span<const float> row(output.logits.row<float>(i),
                                       static_cast<size_t>(output.logits.cols));
      tokens_[i] = static_cast<TokenId>((argmax(row).value() + 1) % output.logits.cols);
    }
    output.tokens = tokens_;
    return output;
  }

 private:
  std::vector<ops::RowDraw> draws_;
  std::vector<TokenId> tokens_;
};

// Whether the tokens of an answer to `request` come from the executor, but for the first ones.
void expect_drawn(EngineRequest request, bool first, bool later) {
  DrawingExecutor executor(kVocabSize);
  testing::LetterTokenizer tokenizer(kVocabSize);
  EngineCoreConfig config;
  config.scheduler.max_num_batched_tokens = 4;  // prompts take several steps
  config.scheduler.max_num_seqs = 4;
  config.scheduler.max_logit_rows = 4;
  config.num_blocks = 32;
  config.max_model_len = 64;
  config.vocab_size = kVocabSize;
  EngineCore core(config, executor, &tokenizer, [] { return 0.0; });
  request.prompt_token_ids = {3, 1, 4, 1, 5, 9};
  request.sampling.max_tokens = 5;
  request.sampling.ignore_eos = true;
  request.output_kind = OutputKind::kFinalOnly;
  Sequence sequence;
  sequence.token_ids = request.prompt_token_ids;
  RequestOutput last;
  auto active = core.prepare(1, std::move(request), [&](const auto& event) { last = event; });
  ASSERT_TRUE(active.ok()) << active.status().message();
  core.add(std::move(*active));
  while (core.step()) {
  }
  ASSERT_TRUE(last.finished && last.status.ok());
  for (const CompletionOutput& answer : last.outputs) {
    sequence.token_ids.resize(6);
    for (size_t i = 0; i < 5; ++i) {
      const TokenId chosen = executor.next_token(sequence, sequence.num_tokens() - 1);
      const bool drawn = i == 0 ? first : later;
      EXPECT_EQ(answer.token_ids.at(i), drawn ? (chosen + 1) % kVocabSize : chosen) << i;
      sequence.token_ids.push_back(answer.token_ids[i]);
    }
  }
}

TEST(DrawTokens, TheEngineTakesThemWhereTheRulesAllow) {
  EngineRequest request;
  request.sampling.temperature = 0;
  expect_drawn(request, true, true);
  request.n = 3;  // their first tokens come from one row
  expect_drawn(request, false, true);
  request.n = 1;
  request.sampling.logprobs = 0;
  expect_drawn(request, false, false);
  request.sampling.logprobs = {};
  request.sampling.prompt_logprobs = 1;  // rows of the prompt are no rows to draw from
  expect_drawn(request, true, true);
  request.sampling.prompt_logprobs = {};
  request.sampling.logit_bias = {{7, -1.0f}};
  expect_drawn(request, false, false);
}

}  // namespace
}  // namespace octavo::engine
