// What the JSON of answers has in common: tokens as text, log-probabilities in both of OpenAI's
// shapes, reasons to stop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "octavo/engine.h"
#include "server/openai/sampling_fields.h"
#include "server/server_config.h"

namespace octavo::server {

// The facts of a request that its answers need; the engine has the rest of it.
struct AnswerContext {
  AnswerContext(const GenerationOptions& options, const ServerConfig& server_config,
                const Tokenizer* model_tokenizer, std::string response_id, std::string model_name);

  const ServerConfig& config;
  const Tokenizer* tokenizer;  // may be null
  std::string id;
  std::string model;
  int64_t created;
  int32_t n;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  std::optional<int32_t> logprobs;
  bool include_usage;
  bool continuous_usage_stats;
  bool tokens_as_ids;
  bool return_token_ids;

  // "token:17" where ids were asked for, or there is no vocabulary.
  std::string token_text(TokenId id) const;
  Json finish_reason(const CompletionOutput& answer) const;
  // The stop string, the stop token that the request named, or null.
  Json stop_reason(const CompletionOutput& answer) const;

  // What a whole response and each chunk of a stream begin with.
  JsonObject head(const char* object) const;
  // The text of a chunk up to its choices: all chunks of a stream share it.
  std::string chunk_begin(const char* object) const;

  // Whether a streamed piece of an answer says anything: a token may have no text yet.
  bool has_news(const CompletionOutput& answer) const;

  // {"content": [{token, logprob, bytes, top_logprobs}]}
  JsonObject chat_logprobs(const std::vector<TokenLogprobs>& positions) const;

  // [null, {"17": {logprob, rank, decoded_token}}, …]
  JsonArray prompt_logprobs(const std::vector<TokenLogprobs>& positions) const;

 private:
  JsonObject chat_logprob(const Logprob& logprob) const;
};

// {text_offset, token_logprobs, tokens, top_logprobs} of one answer; goes on where the last call
// left the text.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(const AnswerContext& context) : context_(context) {}
  void add_first_prompt_token(TokenId id);  // it has no probability
  void add(const std::vector<TokenLogprobs>& positions);
  JsonObject take();

 private:
  void add_token(const std::string& text);

  const AnswerContext& context_;
  int64_t offset_ = 0;  // characters
  JsonArray offsets_, logprobs_, tokens_, top_;
};

JsonArray to_json(const std::vector<TokenId>& token_ids);

}  // namespace octavo::server
