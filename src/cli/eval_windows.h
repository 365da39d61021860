// What `octavo eval` measures: how well models predict the tokens of a text, in windows that are
// those of llama.cpp's llama-perplexity, so that figures can be compared.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "octavo/model.h"

namespace octavo::cli {

// Tokens [begin, end) of the text, seen by the model alone. Counted are the predictions of those
// from first_predicted on; what is before them is context.
struct EvalWindow {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first_predicted = 0;
};

// stride 0: windows of ctx_size side by side, of each the second half counted. Else windows of
// ctx_size + stride / 2 that begin `stride` apart, of each the last `stride` tokens counted. A text
// of fewer tokens than two windows is an error.
Result<std::vector<EvalWindow>> plan_eval_windows(int64_t num_tokens, int64_t ctx_size,
                                                  int64_t stride);

// The mean of a sample and its standard error.
class SampleMean {
 public:
  void add(double value) {
    ++count_;
    sum_ += value;
    sum_of_squares_ += value * value;
  }
  int64_t count() const { return count_; }
  double mean() const;
  double standard_error() const;

 private:
  int64_t count_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

// -log of the probability of `id` by a row of logits.
double negative_log_likelihood(std::span<const float> logits, TokenId id);

// The sum over all tokens of p · log(p / q), p and q the probabilities by two rows of logits.
double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits);

// Called for every token that is counted with each model's row of logits before it. An error ends
// the walk.
using EvalRowFn = std::function<Status(TokenId id, std::span<const std::span<const float>> logits)>;

// Walks through a window in pieces of bounded memory. `bos_id` takes the place of the window's
// first token; -1: that stays.
Status eval_window(std::span<Model* const> models, std::span<const TokenId> token_ids,
                   const EvalWindow& window, TokenId bos_id, const EvalRowFn& on_row);

}  // namespace octavo::cli
