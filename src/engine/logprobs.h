// Log-probabilities of a row of logits.
#pragma once

#include <span>

#include "octavo/request.h"

namespace octavo::engine {

// Of `token` and of the `num_top` likeliest tokens (ties: lower id first). log softmax in double.
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId token, int32_t num_top);

}  // namespace octavo::engine
