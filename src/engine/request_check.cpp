#include "engine/request_check.h"

#include "base/format.h"

namespace octavo::engine {

Status check_prompt(std::span<const TokenId> token_ids, int64_t vocab_size, int64_t max_model_len) {
  if (token_ids.empty()) return invalid_argument("the prompt is empty: it has no token");
  const auto length = static_cast<int64_t>(token_ids.size());
  if (length > max_model_len) {
    return invalid_argument(
        format("the prompt has {} tokens, the context only {}", length, max_model_len));
  }
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] < 0 || token_ids[i] >= vocab_size) {
      return invalid_argument(format("token id {} (position {}) lies outside the vocabulary of {}",
                                     token_ids[i], i, vocab_size));
    }
  }
  return {};
}

Result<int64_t> room_for_answer(int64_t num_prompt_tokens, int64_t max_model_len) {
  const int64_t room = max_model_len - num_prompt_tokens;
  if (room >= 1) return room;
  return invalid_argument(format("the prompt has {} tokens and the context {}: no room to answer",
                                 num_prompt_tokens, max_model_len));
}

Status check_pooling(const EngineRequest& request) {
  if (request.n != 1) return invalid_argument("n must be 1 for an embedding");
  if (request.echo) return invalid_argument("echo is not available for an embedding");
  if (request.sampling.prompt_logprobs) {
    return invalid_argument("prompt_logprobs are not available for an embedding");
  }
  if (request.pooling->dimensions >= 0) return {};
  return invalid_argument(
      format("dimensions is {}, which must be at least 0", request.pooling->dimensions));
}

void add_stop_ids(SamplingParams& params, std::span<const TokenId> stop_ids) {
  if (params.ignore_eos) return;
  params.stop_token_ids.insert(params.stop_token_ids.end(), stop_ids.begin(), stop_ids.end());
}

}  // namespace octavo::engine
