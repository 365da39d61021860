#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/check.h"
#include "base/format.h"

namespace octavo::engine {
namespace {

// What vLLM allows by default.
constexpr int32_t kMaxLogprobs = 20;

// Below it a temperature is greedy, as in vLLM; dividing by less would overflow.
constexpr float kLeastTemperature = 1e-5f;

uint64_t random_seed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

Status out_of_range(const char* field, double value, const char* range) {
  return invalid_argument(format("{} is {}, which must {}", field, value, range));
}

// A NaN is an error, not a token, and so is a row without a largest logit.
Status check(const SoftmaxRow& row) {
  if (row.has_nan()) return internal_error("the model's logits hold NaN");
  if (row.max() == INFINITY) {
    return invalid_argument("a logit is infinite: a penalty or bias of the request is too strong");
  }
  if (row.max() == -INFINITY) {
    return invalid_argument("no token is left to choose: all are banned by the request");
  }
  return {};
}

// What a draw is from: tokens of the row's last sum, and candidates.
class Choice {
 public:
  Choice(const ops::RowDraw& draw, SamplerScratch& scratch)
      : row_(scratch.row), candidates_(scratch.candidates), least_(draw.least) {
    candidates_.clear();
    if (draw.top_k > 0 && static_cast<size_t>(draw.top_k) < row_.size()) {
      keep_top_k(static_cast<size_t>(draw.top_k), draw.top_p);
    } else {
      row_sum_ = row_.compute_weights(least_);
      if (draw.top_p < 1) keep_top_p(row_sum_ * static_cast<double>(draw.top_p));
    }
  }

  // `share`: uniform in [0, 1).
  TokenId draw(double share) const;

 private:
  void keep_top_k(size_t top_k, float top_p);
  void keep_top_p(double reach);
  void cut_candidates(double reach);

  SoftmaxRow& row_;
  std::vector<Candidate>& candidates_;
  double row_sum_ = 0;
  float least_;
};

void Choice::keep_top_k(size_t top_k, float top_p) {
  row_.collect_top(top_k, candidates_);
  while (row_.scaled(candidates_.back().logit) < least_) candidates_.pop_back();
  double sum = 0;
  for (const Candidate& c : candidates_) sum += row_.weight(c.logit);
  if (top_p < 1) cut_candidates(sum * static_cast<double>(top_p));
}

// Finds a bound above which all stay without reaching `reach`, so close to where it is reached that
// few lie between: only these are put in order. Sorting a vocabulary takes longer than a small
// model's step.
void Choice::keep_top_p(double reach) {
  constexpr int kHalvings = 8;
  float below = 0.5f;  // what lies above it, nothing at first, does not reach
  float from = -1;     // what lies above it does, after the loop
  while (from > least_ && row_.sum_from(from) < reach) {
    below = from;
    from *= 2;
  }
  from = std::max(from, least_);
  for (int i = 0; i < kHalvings; ++i) {
    const float middle = (from + std::min(below, 0.0f)) / 2;
    (row_.sum_from(middle) < reach ? below : from) = middle;
  }
  row_sum_ = row_.sum_from(below);
  row_.collect(from, below, candidates_);
  std::sort(candidates_.begin(), candidates_.end());
  cut_candidates(reach);
}

// Leaves as few as reach `reach` together with the row's.
void Choice::cut_candidates(double reach) {
  size_t count = 0;
  for (double sum = row_sum_; count < candidates_.size() && sum < reach; ++count) {
    sum += row_.weight(candidates_[count].logit);
  }
  candidates_.resize(count);
}

TokenId Choice::draw(double share) const {
  double sum = row_sum_;
  for (const Candidate& c : candidates_) sum += row_.weight(c.logit);
  const double target = share * sum;
  if (target < row_sum_ || candidates_.empty()) return row_.find(target);
  sum = row_sum_;
  for (const Candidate& c : candidates_) {
    sum += row_.weight(c.logit);
    if (target < sum) return c.id;
  }
  return candidates_.back().id;
}

}  // namespace

Result<TokenId> argmax(std::span<const float> logits) {
  SoftmaxRow row;
  row.read(logits);
  OCTAVO_TRY(check(row));
  return row.argmax();
}

Sampler::Sampler(const SamplingParams& params) : rng_(params.seed ? *params.seed : random_seed()) {
  const bool greedy = params.temperature < kLeastTemperature;
  draw_.kind = greedy ? ops::DrawKind::kGreedy : ops::DrawKind::kRandom;
  if (greedy) return;
  draw_.scale = 1.0f / params.temperature;
  draw_.top_k = params.top_k;
  draw_.top_p = params.top_p;
  // With min_p, a token stays where p >= min_p * p_max, that is where its scaled logit is at
  // least ln(min_p). A double's logarithm, rounded, is the same whoever wrote the library.
  if (params.min_p > 0) {
    const double log_min_p = std::log(static_cast<double>(params.min_p));
    draw_.least = std::max(draw_.least, static_cast<float>(log_min_p));
  }
  move_on();
}

void Sampler::move_on() {
  if (draw_.kind == ops::DrawKind::kRandom) draw_.share = rng_.next_double();
}

Result<TokenId> Sampler::sample(std::span<const float> logits, SamplerScratch& scratch) {
  scratch.row.read(logits);
  OCTAVO_TRY(check(scratch.row));
  if (draw_.kind == ops::DrawKind::kGreedy) return scratch.row.argmax();
  scratch.row.set_scale(draw_.scale);
  const TokenId id = Choice(draw_, scratch).draw(draw_.share);
  move_on();
  return id;
}

}  // namespace octavo::engine

namespace octavo {

Status validate_sampling(const SamplingParams& p) {
  // Written so that NaN fails.
  if (!(p.temperature >= 0 && std::isfinite(p.temperature))) {
    return engine::out_of_range("temperature", p.temperature, "be 0 or more");
  }
  if (p.top_k < -1) return engine::out_of_range("top_k", p.top_k, "be 0 or more, or -1 for all");
  if (!(p.top_p > 0 && p.top_p <= 1))
    return engine::out_of_range("top_p", p.top_p, "lie in (0, 1]");
  if (!(p.min_p >= 0 && p.min_p <= 1))
    return engine::out_of_range("min_p", p.min_p, "lie in [0, 1]");
  if (!(p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty))) {
    return engine::out_of_range("repetition_penalty", p.repetition_penalty, "be above 0");
  }
  if (!(std::abs(p.presence_penalty) <= 2)) {
    return engine::out_of_range("presence_penalty", p.presence_penalty, "lie in [-2, 2]");
  }
  if (!(std::abs(p.frequency_penalty) <= 2)) {
    return engine::out_of_range("frequency_penalty", p.frequency_penalty, "lie in [-2, 2]");
  }
  for (const LogitBias& bias : p.logit_bias) {
    if (!(std::abs(bias.bias) <= 100))
      return engine::out_of_range("logit_bias", bias.bias, "lie in [-100, 100]");
  }
  for (const auto& [field, count] :
       {std::pair{"logprobs", p.logprobs}, std::pair{"prompt_logprobs", p.prompt_logprobs}}) {
    if (count && (*count < 0 || *count > engine::kMaxLogprobs)) {
      return invalid_argument(
          format("{} is {}, which must lie in 0..{}", field, *count, engine::kMaxLogprobs));
    }
  }
  if (p.max_tokens && *p.max_tokens < 1) {
    return invalid_argument(format("max_tokens is {}, which must be at least 1", *p.max_tokens));
  }
  if (p.min_tokens < 0 || (p.max_tokens && p.min_tokens > *p.max_tokens)) {
    return invalid_argument(
        format("min_tokens is {}, which must lie between 0 and max_tokens", p.min_tokens));
  }
  for (const std::string& stop : p.stop) {
    if (stop.empty()) return invalid_argument("stop holds an empty string");
  }
  return {};
}

}  // namespace octavo
