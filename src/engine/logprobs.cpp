#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>

namespace octavo::engine {

TokenLogprobs token_logprobs(std::span<const float> logits, TokenId token, int32_t num_top) {
  const auto before = [&](TokenId a, TokenId b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  int64_t rank = 1;
  for (size_t i = 0; i < logits.size(); ++i) {
    sum += std::exp(logits[i] - max);
    if (before(static_cast<TokenId>(i), token)) ++rank;
  }
  const double log_sum = max + std::log(sum);
  const auto logprob = [&](TokenId id) { return static_cast<float>(logits[id] - log_sum); };

  TokenLogprobs result;
  result.token = {token, logprob(token), rank};
  const size_t count = std::min<size_t>(static_cast<size_t>(num_top), logits.size());
  if (count == 0) return result;
  std::vector<TokenId> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                    before);
  for (size_t i = 0; i < count; ++i) {
    result.top.push_back({order[i], logprob(order[i]), static_cast<int64_t>(i) + 1});
  }
  return result;
}

}  // namespace octavo::engine
