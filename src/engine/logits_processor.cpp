#include "engine/logits_processor.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "engine/logprobs.h"

namespace octavo::engine {
namespace {

Status check_id(TokenId id, const char* field, int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return {};
  return invalid_argument(
      format("{} holds {}, which lies outside the vocabulary of {}", field, id, vocab_size));
}

}  // namespace

Result<LogitsProcessor> LogitsProcessor::create(const Request& request, const Tokenizer* tokenizer,
                                                int64_t vocab_size) {
  LogitsProcessor processor;
  processor.request_ = &request;
  OCTAVO_TRY(processor.read_ids(tokenizer, vocab_size));
  OCTAVO_TRY(processor.read_bad_words(tokenizer));
  const SamplingParams& p = request.sampling;
  const bool penalties =
      p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
  if (penalties) {
    for (const TokenId id : request.prompt_token_ids) processor.counts_[id] = 0;
  }
  processor.active_ = penalties || !p.logit_bias.empty() || !p.allowed_token_ids.empty() ||
                      !processor.bad_words_.empty() || p.min_tokens > 0;
  return processor;
}

Status LogitsProcessor::read_ids(const Tokenizer* tokenizer, int64_t vocab_size) {
  const SamplingParams& p = request_->sampling;
  for (const LogitBias& bias : p.logit_bias) {
    OCTAVO_TRY(check_id(bias.token_id, "logit_bias", vocab_size));
  }
  for (const TokenId id : p.allowed_token_ids) {
    OCTAVO_TRY(check_id(id, "allowed_token_ids", vocab_size));
  }
  for (const TokenId id : p.stop_token_ids) {
    OCTAVO_TRY(check_id(id, "stop_token_ids", vocab_size));
  }
  stop_ids_ = p.stop_token_ids;
  if (tokenizer != nullptr) {
    const auto stops = tokenizer->stop_ids();
    stop_ids_.insert(stop_ids_.end(), stops.begin(), stops.end());
  }
  return {};
}

// A word is banned as it stands and after a space, where that is another token at its beginning.
Status LogitsProcessor::read_bad_words(const Tokenizer* tokenizer) {
  for (const std::string& word : request_->sampling.bad_words) {
    if (word.empty()) return invalid_argument("bad_words holds an empty string");
    if (tokenizer == nullptr) return invalid_argument("bad_words needs a model with a vocabulary");
    for (const std::string& text : {word, " " + word}) {
      auto ids = OCTAVO_TRY(tokenizer->encode(text, {false, false}));
      if (!ids.empty()) bad_words_.push_back(std::move(ids));
    }
  }
  return {};
}

void LogitsProcessor::constrain(grammar::Matcher matcher) {
  matcher_ = std::move(matcher);
  active_ = true;
}

Status LogitsProcessor::mask(std::span<float> logits) {
  return matcher_ ? matcher_->mask(logits) : Status();
}

void LogitsProcessor::ban_bad_words(std::span<float> logits,
                                    std::span<const TokenId> output) const {
  for (const std::vector<TokenId>& word : bad_words_) {
    const size_t prefix = word.size() - 1;
    if (prefix > output.size()) continue;
    const auto tail = output.subspan(output.size() - prefix);
    if (std::equal(tail.begin(), tail.end(), word.begin())) logits[word.back()] = -INFINITY;
  }
}

void LogitsProcessor::apply_penalties(std::span<float> logits) const {
  const SamplingParams& p = request_->sampling;
  for (const auto& [id, count] : counts_) {
    float& logit = logits[id];
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    if (count == 0) continue;
    logit -= p.frequency_penalty * static_cast<float>(count);
    logit -= p.presence_penalty;
  }
}

void LogitsProcessor::apply(std::span<float> logits, std::span<const TokenId> output) const {
  const SamplingParams& p = request_->sampling;
  if (!p.allowed_token_ids.empty()) {
    std::vector<float> allowed;
    for (const TokenId id : p.allowed_token_ids) allowed.push_back(logits[id]);
    std::fill(logits.begin(), logits.end(), -INFINITY);
    for (size_t i = 0; i < allowed.size(); ++i) logits[p.allowed_token_ids[i]] = allowed[i];
  }
  ban_bad_words(logits, output);
  const bool must_end = matcher_ && matcher_->must_end();
  if (static_cast<int64_t>(output.size()) < p.min_tokens && !must_end) {
    for (const TokenId id : stop_ids_) logits[id] = -INFINITY;
  }
  for (const LogitBias& bias : p.logit_bias) logits[bias.token_id] += bias.bias;
  apply_penalties(logits);
}

void LogitsProcessor::push(TokenId id) {
  if (matcher_) matcher_->accept(id);
  const SamplingParams& p = request_->sampling;
  if (p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0) {
    ++counts_[id];
  }
}

Result<TokenId> choose_by_rules(std::span<const float> logits, std::span<const TokenId> output,
                                LogitsProcessor& processor, Sampler& sampler,
                                SamplerScratch& scratch) {
  if (!processor.active()) return sampler.sample(logits, scratch);
  OCTAVO_TRY(argmax(logits));  // a NaN must not hide behind a ban
  scratch.logits.assign(logits.begin(), logits.end());
  OCTAVO_TRY(processor.mask(scratch.logits));
  processor.apply(scratch.logits, output);
  return sampler.sample(scratch.logits, scratch);
}

Result<TokenLogprobs> logprobs_by_rules(std::span<const float> logits, TokenId token,
                                        int32_t num_top, LogitsProcessor& processor,
                                        SamplerScratch& scratch) {
  if (!processor.constrained()) return token_logprobs(logits, token, num_top);
  scratch.logits.assign(logits.begin(), logits.end());
  OCTAVO_TRY(processor.mask(scratch.logits));
  TokenLogprobs result = token_logprobs(scratch.logits, token, num_top);
  std::erase_if(result.top, [](const Logprob& one) { return std::isinf(one.logprob); });
  return result;
}

ops::RowDraw draw_by_rules(const SamplingParams& params, const LogitsProcessor& processor,
                           const Sampler& sampler) {
  return processor.active() || params.logprobs ? ops::RowDraw() : sampler.next_draw();
}

}  // namespace octavo::engine
