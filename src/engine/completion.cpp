#include "engine/completion.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace octavo::engine {
namespace {

// Answer i of a request draws what the request would draw alone with seed + i.
SamplingParams with_seed_of(const SamplingParams& params, int32_t index) {
  SamplingParams own = params;
  if (own.seed) *own.seed += static_cast<uint64_t>(index);
  return own;
}

}  // namespace

Completion::Completion(ActiveRequest& request, int32_t index, const LogitsProcessor& processor,
                       const Tokenizer* tokenizer, int64_t max_tokens)
    : request_(request),
      tokenizer_(tokenizer),
      max_tokens_(max_tokens),
      processor_(processor),
      sampler_(with_seed_of(request.request.sampling, index)),
      stream_(tokenizer, request.request) {
  token_ids = request.request.prompt_token_ids;
  max_num_tokens = request.num_prompt_tokens() + max_tokens;
  priority = request.request.priority;
  cache_extras = request.request.cache_salt;
  first_logit_position =
      request.request.sampling.prompt_logprobs ? 0 : request.num_prompt_tokens() - 1;
  output_.index = index;
  if (!request.request.pooling) return;
  wants_hidden = true;
  if (request.request.pooling->pooling_type == PoolingType::kMean) first_logit_position = 0;
  pooler_.emplace(*request.request.pooling);
}

Status Completion::choose_token(std::span<const float> logits, SamplerScratch& scratch) {
  const SamplingParams& params = request_.request.sampling;
  chosen_ = OCTAVO_TRY(choose_by_rules(logits, output_.token_ids, processor_, sampler_, scratch));
  if (!params.logprobs) return {};
  output_.logprobs.push_back(
      OCTAVO_TRY(logprobs_by_rules(logits, chosen_, *params.logprobs, processor_, scratch)));
  return {};
}

// Answers that will begin from the same row draw from it on the host.
void Completion::next_draws(std::span<ops::RowDraw> draws) const {
  if (num_forks > 0) return;
  Sampler ahead = sampler_;
  for (ops::RowDraw& draw : draws) {
    draw = draw_by_rules(request_.request.sampling, processor_, ahead);
    ahead.move_on();
  }
}

void Completion::take_token(TokenId id) {
  chosen_ = id;
  sampler_.move_on();
}

void Completion::append_token() {
  const TokenId id = chosen_;
  processor_.push(id);
  token_ids.push_back(id);
  output_.token_ids.push_back(id);
  if (is_stop_token(tokenizer_, request_.request, id)) {
    finish(FinishReason::kStop, format("token {}", id));
    return;
  }
  output_.text += stream_.push(id);
  if (stream_.stop_hit() != nullptr) {
    finish(FinishReason::kStop, *stream_.stop_hit());
  } else if (num_generated_tokens() >= max_tokens_) {
    finish(FinishReason::kLength, "");
  }
}

Status Completion::pool(const ops::Mat& hidden) {
  pooler_->add(hidden);
  if (num_pending_tokens() > 0) return {};
  request_.embedding = OCTAVO_TRY(pooler_->take());
  finish(FinishReason::kStop, "");
  return {};
}

void Completion::finish(FinishReason reason, std::string stop_reason) {
  output_.finish_reason = reason;
  output_.stop_reason = std::move(stop_reason);
  if (stream_.stop_hit() == nullptr) output_.text += stream_.finish();
}

void Completion::abort() {
  finish(FinishReason::kAbort, "");
}

std::optional<CompletionOutput> Completion::take_delta() {
  CompletionOutput delta;
  delta.index = output_.index;
  delta.text = output_.text.substr(taken_text_bytes_);
  delta.token_ids.assign(output_.token_ids.begin() + static_cast<ptrdiff_t>(taken_tokens_),
                         output_.token_ids.end());
  if (!output_.logprobs.empty()) {
    delta.logprobs.assign(output_.logprobs.begin() + static_cast<ptrdiff_t>(taken_tokens_),
                          output_.logprobs.end());
  }
  const bool finish_is_new = finished() && !taken_finish_;
  if (finish_is_new) {
    delta.finish_reason = output_.finish_reason;
    delta.stop_reason = output_.stop_reason;
  }
  taken_text_bytes_ = output_.text.size();
  taken_tokens_ = output_.token_ids.size();
  taken_finish_ = finished();
  if (delta.text.empty() && delta.token_ids.empty() && !finish_is_new) return std::nullopt;
  return delta;
}

// --- requests ------------------------------------------------------------------------------------

bool ActiveRequest::finished() const {
  return std::all_of(completions.begin(), completions.end(),
                     [](const auto& completion) { return completion->finished(); });
}

Usage ActiveRequest::usage() const {
  Usage usage;
  usage.prompt_tokens = num_prompt_tokens();
  usage.cached_tokens = completions[0]->num_cached_tokens;
  for (const auto& completion : completions) {
    usage.completion_tokens += completion->num_generated_tokens();
  }
  return usage;
}

RequestMetrics ActiveRequest::metrics() const {
  RequestMetrics metrics;
  if (first_step) metrics.queued_s = *first_step - submitted;
  if (first_token) metrics.prefill_s = *first_token - *first_step;
  if (last_token) metrics.decode_s = *last_token - *first_token;
  for (const auto& completion : completions) {
    metrics.num_preemptions += completion->num_preemptions;
  }
  return metrics;
}

RequestOutput ActiveRequest::make_output(bool last, Status status) {
  RequestOutput event;
  event.id = id;
  event.finished = last;
  event.status = std::move(status);
  event.usage = usage();
  event.metrics = metrics();
  const bool delta = request.output_kind == OutputKind::kDelta;
  for (const auto& completion : completions) {
    if (!delta) {
      event.outputs.push_back(completion->output());
    } else if (auto news = completion->take_delta()) {
      event.outputs.push_back(std::move(*news));
    }
  }
  if (!delta || !prompt_logprobs_sent) event.prompt_logprobs = prompt_logprobs;
  prompt_logprobs_sent = true;
  if (last) event.embedding = std::move(embedding);
  return event;
}

}  // namespace octavo::engine
