// Completion: one answer in the making: a sequence, the rules by which its tokens are chosen, and
// the output so far. ActiveRequest: all answers to one request.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/logits_processor.h"
#include "engine/output.h"
#include "engine/pooler.h"
#include "engine/sequence.h"
#include "octavo/engine.h"

namespace octavo::engine {

struct ActiveRequest;

class Completion : public Sequence {
 public:
  Completion(ActiveRequest& request, int32_t index, const LogitsProcessor& processor,
             const Tokenizer* tokenizer, int64_t max_tokens);

  ActiveRequest& request() const { return request_; }
  bool finished() const { return output_.finish_reason.has_value(); }
  int64_t num_generated_tokens() const { return static_cast<int64_t>(output_.token_ids.size()); }

  // Chooses the next token from a row of logits, with its logprobs. Completions may do so at the
  // same time.
  Status choose_token(std::span<const float> logits, SamplerScratch& scratch);

  // How a device may choose the next tokens instead, from this sequence's own rows of logits; then
  // take_token().
  void next_draws(std::span<ops::RowDraw> draws) const;
  void take_token(TokenId id);

  // Takes the token that was chosen, and ends the answer where it, a stop string or a limit says
  // so.
  void append_token();

  // Takes hidden states of the next positions; the prompt's last one ends the request.
  Status pool(const ops::Mat& hidden);

  // Ends an answer that no rule has ended.
  void abort();

  // The text that all else comes after.
  void echo(std::string prompt_text) { output_.text = std::move(prompt_text); }

  const CompletionOutput& output() const { return output_; }

  // What is new since the last call; nothing where nothing is.
  std::optional<CompletionOutput> take_delta();

 private:
  void finish(FinishReason reason, std::string stop_reason);

  ActiveRequest& request_;
  const Tokenizer* tokenizer_;
  int64_t max_tokens_;
  LogitsProcessor processor_;
  Sampler sampler_;
  OutputStream stream_;
  std::optional<Pooler> pooler_;
  CompletionOutput output_;
  TokenId chosen_ = 0;
  // What take_delta() has given out.
  size_t taken_text_bytes_ = 0;
  size_t taken_tokens_ = 0;
  bool taken_finish_ = false;
};

struct ActiveRequest {
  RequestId id = 0;
  EngineRequest request;
  RequestOutputSink sink;
  std::vector<std::unique_ptr<Completion>> completions;  // [n]; the first computes the prompt
  std::vector<TokenLogprobs> prompt_logprobs;
  bool prompt_logprobs_sent = false;
  std::vector<float> embedding;
  bool has_news = false;  // that is not delivered yet

  // Tells whoever runs the engine that request.cancel was used.
  std::optional<std::stop_callback<std::function<void()>>> on_cancel;

  // Times in seconds of one clock.
  double submitted = 0;
  std::optional<double> deadline, first_step, first_token, last_token;

  int64_t num_prompt_tokens() const {
    return static_cast<int64_t>(request.prompt_token_ids.size());
  }
  bool finished() const;
  Usage usage() const;
  RequestMetrics metrics() const;

  // The next event, as the request wants it.
  RequestOutput make_output(bool last, Status status);
};

}  // namespace octavo::engine
