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

}  // namespace

Result<TokenId> argmax(std::span<const float> logits) {
  size_t best = 0;
  bool has_nan = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    has_nan |= std::isnan(logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  if (has_nan) return internal_error("the model's logits hold NaN");
  if (logits[best] == INFINITY) {
    return invalid_argument("a logit is infinite: a penalty or bias of the request is too strong");
  }
  if (logits[best] == -INFINITY) {
    return invalid_argument("no token is left to choose: all are banned by the request");
  }
  return static_cast<TokenId>(best);
}

Sampler::Sampler(const SamplingParams& params)
    : params_(params), rng_(params.seed ? *params.seed : random_seed()) {}

// Draws by weight among the likeliest candidates that reach top_p. Only as many are put in order as
// the draw needs: sorting a vocabulary takes longer than a small model's step.
TokenId Sampler::draw() {
  const auto likelier = [](const Candidate& a, const Candidate& b) { return b.before(a); };
  double total = 0;
  for (const Candidate& c : candidates_) total += std::exp(static_cast<double>(c.logit));
  std::make_heap(candidates_.begin(), candidates_.end(), likelier);
  const bool cut = params_.top_p < 1;
  const double share = rng_.next_double();
  const double reach = total * (cut ? static_cast<double>(params_.top_p) : share);
  ordered_.clear();
  double sum = 0;
  while (!candidates_.empty() && (cut ? sum < reach : sum <= reach)) {
    std::pop_heap(candidates_.begin(), candidates_.end(), likelier);
    sum += std::exp(static_cast<double>(candidates_.back().logit));
    ordered_.push_back({candidates_.back().id, sum});
    candidates_.pop_back();
  }
  if (!cut) return ordered_.back().id;
  for (const Ordered& o : ordered_) {
    if (share * sum < o.weight_up_to) return o.id;
  }
  return ordered_.back().id;
}

Result<TokenId> Sampler::sample(std::span<const float> logits) {
  const TokenId best = OCTAVO_TRY(argmax(logits));
  if (params_.temperature < kLeastTemperature) return best;
  const float max = logits[best];
  // With min_p, a token stays where p >= min_p * p_max, that is logit >= max + T * ln(min_p).
  const float inverse = 1.0f / params_.temperature;
  const float least = params_.min_p > 0 ? std::log(params_.min_p) : -INFINITY;
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const float scaled = (logits[i] - max) * inverse;
    if (scaled >= least || static_cast<TokenId>(i) == best)
      candidates_.push_back({scaled, static_cast<TokenId>(i)});
  }
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < candidates_.size()) {
    const auto before = [](const Candidate& a, const Candidate& b) { return a.before(b); };
    std::nth_element(candidates_.begin(), candidates_.begin() + params_.top_k, candidates_.end(),
                     before);
    candidates_.resize(params_.top_k);
    // Sums must not depend on the order in which a standard library leaves them.
    std::sort(candidates_.begin(), candidates_.end(), before);
  }
  return draw();
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
  if (p.min_tokens < 0 || (p.max_tokens && p.min_tokens > *p.max_tokens)) {
    return invalid_argument(
        format("min_tokens is {}, which must lie between 0 and max_tokens", p.min_tokens));
  }
  if (p.max_tokens && *p.max_tokens < 1) {
    return invalid_argument(format("max_tokens is {}, which must be at least 1", *p.max_tokens));
  }
  for (const std::string& stop : p.stop) {
    if (stop.empty()) return invalid_argument("stop holds an empty string");
  }
  return {};
}

}  // namespace octavo
