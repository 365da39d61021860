#include "engine/logprobs.h"

#include <cmath>

#include "engine/softmax_row.h"

namespace octavo::engine {

TokenLogprobs token_logprobs(std::span<const float> logits, TokenId token, int32_t num_top) {
  SoftmaxRow row;
  row.read(logits);
  const double log_sum = row.max() + std::log(row.compute_weights(ops::kLeastScaled));
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  const float own = logits[token];
  int32_t num_before = 0;
  for (const float logit : logits.first(token)) num_before += logit >= own ? 1 : 0;
  for (const float logit : logits.subspan(token + 1)) num_before += logit > own ? 1 : 0;

  TokenLogprobs result;
  result.token = {token, logprob(own), num_before + 1};
  std::vector<Candidate> top;
  row.collect_top(static_cast<size_t>(num_top), top);
  for (const Candidate& c : top) {
    const auto rank = static_cast<int64_t>(result.top.size()) + 1;
    result.top.push_back({c.id, logprob(c.logit), rank});
  }
  return result;
}

}  // namespace octavo::engine
