// What a caller asks for (Request) and what it gets back (OutputDelta, Generation).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo {

// Named and scaled as in vLLM's SamplingParams. Temperature 0 is greedy and ignores the rest.
struct SamplingParams {
  float temperature = 1.0f;  // >= 0
  int32_t top_k = 0;         // keep the k likeliest tokens; 0 or -1: all
  float top_p = 1.0f;        // (0, 1]: keep the least set of tokens whose probability reaches it
  float min_p = 0.0f;  // [0, 1]: drop tokens below min_p times the likeliest one's probability
  std::optional<uint64_t> seed;  // unset: a new one for every request
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  std::optional<int64_t> max_tokens;  // unset: up to the context's end
};

struct Request {
  std::vector<TokenId> prompt_token_ids;  // not empty
  SamplingParams sampling;
  bool show_special_tokens = false;
};

enum class FinishReason {
  kStop,    // a stop token or a stop string; vLLM's "stop"
  kLength,  // max_tokens, or the context is full; "length"
  kAbort,   // the caller's sink returned false; "abort"
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

// The whole answer. `text` never contains a stop string or half a character; the concatenation of
// all deltas equals it.
struct Generation {
  std::string text;
  std::vector<TokenId> token_ids;  // as sampled, the stop token included
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_reason;  // the stop string or "token <id>" that ended it, if one did
  Usage usage;
  Timings timings;
};

// New text since the last call (may be empty) after each token. Return false to stop.
using OutputSink = std::function<bool(std::string_view text_delta)>;

}  // namespace octavo
