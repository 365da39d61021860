// The fields that all generating requests share: sampling, streaming, what to return.
#pragma once

#include <optional>
#include <string>

#include "octavo/engine.h"
#include "server/openai/fields.h"
#include "server/server_config.h"

namespace octavo::server {

struct GenerationOptions {
  EngineRequest request;  // all but its prompt
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage_stats = false;
  bool return_tokens_as_token_ids = false;
  bool return_token_ids = false;
  std::optional<int64_t> truncate_prompt_tokens;  // so many stay; -1: what the context holds
  bool truncates_left = true;                     // the last ones stay
  std::string request_id;                         // the client's own; "" where it has none
};

// `fields.status()` has the first error. Fields that octavo has no feature for are refused where
// they ask for it, never ignored.
GenerationOptions read_generation_options(Fields& fields, const ServerConfig& config);

// max_tokens of completions, 16 where the request has none; null asks for the rest of the context,
// as in vLLM.
void read_max_tokens(Fields& fields, SamplingParams& params);

// max_completion_tokens, the newer name of max_tokens; wins over it.
void read_max_completion_tokens(Fields& fields, SamplingParams& params);

// max_new_tokens of the model's generation_config.json is a limit for every request, as in vLLM.
void limit_max_tokens(const ServerConfig& config, SamplingParams& params);

// What config.default_sampling says, to be checked before the first request.
Result<SamplingParams> read_default_sampling(const ServerConfig& config);

// truncate_prompt_tokens and truncation_side: the part of the above that embeddings have too.
void read_truncation(Fields& fields, GenerationOptions& options);

// The prompt's tokens as `options` wants them cut. What is too long for the model is an error.
Status cut_prompt(std::vector<TokenId>& token_ids, const GenerationOptions& options,
                  int64_t max_model_len);

// An error of kind kNotFound where `model` is given and not one that is served.
Status check_model(Fields& fields, const ServerConfig& config);

}  // namespace octavo::server
