// What is wrong with a prompt, before anything is computed for it.
#pragma once

#include <cstdint>
#include <span>

#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::engine {

// Not empty, every id inside the vocabulary, not longer than the context.
Status check_prompt(std::span<const TokenId> token_ids, int64_t vocab_size, int64_t max_model_len);

// How many tokens an answer to a prompt of that length may have; an error where it is none.
Result<int64_t> room_for_answer(int64_t num_prompt_tokens, int64_t max_model_len);

}  // namespace octavo::engine
