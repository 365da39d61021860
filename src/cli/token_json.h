// What is said of tokens in the JSON that commands print.
#pragma once

#include <vector>

#include "base/json.h"
#include "octavo/request.h"

namespace octavo::cli {

// Of each position {"token_id", "logprob", "rank", "top": […]}.
JsonArray logprobs_json(const std::vector<TokenLogprobs>& positions);

}  // namespace octavo::cli
