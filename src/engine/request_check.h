// What is wrong with a request, and what is missing in it, before anything is computed for it.
#pragma once

#include <cstdint>
#include <span>

#include "octavo/engine.h"
#include "octavo/request.h"
#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::engine {

// Not empty, every id inside the vocabulary, not longer than the context.
Status check_prompt(std::span<const TokenId> token_ids, int64_t vocab_size, int64_t max_model_len);

// How many tokens an answer to a prompt of that length may have; an error where it is none.
Result<int64_t> room_for_answer(int64_t num_prompt_tokens, int64_t max_model_len);

// What an embedding is asked for with.
Status check_pooling(const EngineRequest& request);

// Puts a model's own stop tokens, which no tokenizer tells of, among the request's.
void add_stop_ids(SamplingParams& params, std::span<const TokenId> stop_ids);

}  // namespace octavo::engine
