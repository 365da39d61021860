// What a caller asks for (Request) and what it gets back (OutputDelta, Generation).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo {

struct LogitBias {
  TokenId token_id = 0;
  float bias = 0;  // added to the token's logit, [-100, 100]
};

// What an answer must be: exactly one is set. Tokens that would leave it cannot be chosen, and the
// answer can end only where it is whole; where max_tokens ends it before, it is not.
struct StructuredOutputs {
  std::optional<std::string> json;     // matches this JSON schema
  std::optional<std::string> regex;    // matches this regular expression as a whole
  std::vector<std::string> choice;     // is one of these
  std::optional<std::string> grammar;  // matches the rule `root` of this grammar (GBNF)
  bool json_object = false;            // is a JSON object
  std::string source;  // the field that errors name; "": structured_outputs and which of these
};

// Named and scaled as in vLLM's SamplingParams, and applied in vLLM's order: allowed_token_ids,
// bad_words, min_tokens, logit_bias, penalties, temperature, min_p, top_k, top_p. Temperature 0
// takes the likeliest token.
struct SamplingParams {
  float temperature = 1.0f;  // >= 0
  int32_t top_k = 0;         // keep the k likeliest tokens; 0 or -1: all
  float top_p = 1.0f;        // (0, 1]: keep the least set of tokens whose probability reaches it
  float min_p = 0.0f;  // [0, 1]: drop tokens below min_p times the likeliest one's probability
  std::optional<uint64_t> seed;  // unset: a new one for every request

  // Of tokens in prompt or answer, positive logits are divided and others multiplied by it. > 0
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;   // subtracted from the logits of tokens in the answer. [-2, 2]
  float frequency_penalty = 0.0f;  // subtracted for each time a token is in the answer. [-2, 2]
  std::vector<LogitBias> logit_bias;
  std::vector<std::string> bad_words;      // never generated; needs a tokenizer
  std::vector<TokenId> allowed_token_ids;  // empty: all

  std::optional<StructuredOutputs> structured_outputs;  // needs a tokenizer

  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;  // the text ends with the stop string that ended it
  bool ignore_eos = false;
  int64_t min_tokens = 0;             // before that no token ends the answer
  std::optional<int64_t> max_tokens;  // unset: up to the context's end

  // Report the n likeliest tokens beside the chosen one, [0, 20]; of the model's own distribution,
  // before anything above is applied.
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;  // the same for the prompt's tokens
};

// Checks every number against its range; the error names the field.
Status validate_sampling(const SamplingParams& params);

enum class PoolingType {
  kLast,  // the last token's
  kMean,  // the mean over all tokens
};

// How the hidden states after the model's last norm become one vector.
struct PoolingParams {
  PoolingType pooling_type = PoolingType::kLast;
  bool normalize = true;   // to a length of 1
  int64_t dimensions = 0;  // keep so many, before they are normalized; 0: all
};

struct Request {
  std::vector<TokenId> prompt_token_ids;  // not empty
  SamplingParams sampling;
  bool show_special_tokens = false;
  // Ends the answer with kAbort at the next token, or the next chunk of a long prompt, once any
  // thread has called request_stop() of its source; at once if that was before the start.
  std::stop_token cancel;
};

enum class FinishReason {
  kStop,    // a stop token or a stop string; vLLM's "stop"
  kLength,  // max_tokens, or the context is full; "length"
  kAbort,   // the caller's sink returned false, or the request was cancelled; "abort"
};
const char* finish_reason_name(FinishReason reason);

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens whose keys and values were still in the cache
};

struct Timings {
  double prefill_s = 0;  // from the start to the first token
  double decode_s = 0;   // from the first token to the last
};

struct Logprob {
  TokenId token_id = 0;
  float logprob = 0;  // natural logarithm of the probability
  int64_t rank = 1;   // 1: the likeliest
};

// Of one position: the token that stands there, then the likeliest ones in order.
struct TokenLogprobs {
  Logprob token;
  std::vector<Logprob> top;
};

// The whole answer. `text` never contains half a character, nor a stop string unless
// include_stop_str_in_output says so; the concatenation of
// all deltas equals it.
struct Generation {
  std::string text;
  std::vector<TokenId> token_ids;  // as sampled, the stop token included
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_reason;  // the stop string or "token <id>" that ended it, if one did
  Usage usage;
  Timings timings;
  std::vector<TokenLogprobs> logprobs;  // [token_ids.size()] where asked for
  // [prompt_tokens - 1] where asked for: of the second prompt token on, given those before it.
  std::vector<TokenLogprobs> prompt_logprobs;
};

// New text since the last call (may be empty), after each token and between the chunks of a long
// prompt. Return false to stop.
using OutputSink = std::function<bool(std::string_view text_delta)>;

}  // namespace octavo
