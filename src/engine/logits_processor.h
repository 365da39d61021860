// LogitsProcessor: what a request changes about the model's logits before a token is chosen:
// structured outputs, allowed and banned tokens, min_tokens, bias, penalties. In vLLM's order,
// which can be observed.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampler.h"
#include "grammar/matcher.h"
#include "octavo/request.h"
#include "octavo/status.h"

namespace octavo::engine {

class LogitsProcessor {
 public:
  // Checks the request's ids against the vocabulary and encodes its bad words; `tokenizer` may be
  // null where there are none. `request` must outlive this.
  static Result<LogitsProcessor> create(const Request& request, const Tokenizer* tokenizer,
                                        int64_t vocab_size);

  // The answer must match a grammar.
  void constrain(grammar::Matcher matcher);
  bool constrained() const { return matcher_.has_value(); }

  // Takes what the grammar, if there is one, does not allow next out of a row of logits.
  Status mask(std::span<float> logits);

  // Whether `mask` or `apply` would change anything.
  bool active() const { return active_; }

  // `logits` [vocab_size] are those after `output`, the answer so far.
  void apply(std::span<float> logits, std::span<const TokenId> output) const;

  // A token was chosen.
  void push(TokenId id);

 private:
  LogitsProcessor() = default;
  Status read_ids(const Tokenizer* tokenizer, int64_t vocab_size);
  Status read_bad_words(const Tokenizer* tokenizer);
  void ban_bad_words(std::span<float> logits, std::span<const TokenId> output) const;
  void apply_penalties(std::span<float> logits) const;

  const Request* request_ = nullptr;
  bool active_ = false;
  std::vector<TokenId> stop_ids_;                // barred until min_tokens
  std::vector<std::vector<TokenId>> bad_words_;  // as sequences of ids
  std::unordered_map<TokenId, int32_t> counts_;  // in the answer; 0: in the prompt alone
  std::optional<grammar::Matcher> matcher_;
};

// The token after `output`, the answer so far: the logits as the request changes them (a copy;
// `logits` stay as they are), then the sampler's choice.
Result<TokenId> choose_by_rules(std::span<const float> logits, std::span<const TokenId> output,
                                LogitsProcessor& processor, Sampler& sampler,
                                SamplerScratch& scratch);

// The logprobs of that token and of the `num_top` likeliest: of the model's own distribution, or of
// what a grammar leaves of it.
Result<TokenLogprobs> logprobs_by_rules(std::span<const float> logits, TokenId token,
                                        int32_t num_top, LogitsProcessor& processor,
                                        SamplerScratch& scratch);

// How a device may draw that token in its place; kNone where it cannot know the rules, or where the
// row is needed for logprobs besides.
ops::RowDraw draw_by_rules(const SamplingParams& params, const LogitsProcessor& processor,
                           const Sampler& sampler);

}  // namespace octavo::engine
