#include "cli/eval_windows.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"

namespace octavo::cli {
namespace {

// Rows of logits of one call: 128 of a vocabulary of 150,000 take 77 MB.
constexpr int64_t kPieceRows = 128;

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : logits) sum += std::exp(value - max);
  return max + std::log(sum);
}

}  // namespace

Result<std::vector<EvalWindow>> plan_eval_windows(int64_t num_tokens, int64_t ctx_size,
                                                  int64_t stride) {
  constexpr int64_t kMaxContext = int64_t{1} << 30;
  if (ctx_size < 2 || ctx_size > kMaxContext) {
    return invalid_argument(
        format("--ctx-size is {}, which must lie in 2..{}", ctx_size, kMaxContext));
  }
  const int64_t size = ctx_size + stride / 2;
  if (stride < 0 || stride >= size) {
    return invalid_argument(
        format("--stride is {}, which must lie in 0..{}", stride, 2 * ctx_size - 1));
  }
  if (num_tokens < 2 * size) {
    return invalid_argument(
        format("the text has {} tokens; two windows of {} need {}", num_tokens, size, 2 * size));
  }
  std::vector<EvalWindow> windows;
  if (stride == 0) {
    for (int64_t begin = 0; begin + size <= num_tokens; begin += size) {
      windows.push_back({begin, begin + size, begin + size / 2 + 1});
    }
    return windows;
  }
  for (int64_t begin = 0; begin + size < num_tokens; begin += stride) {
    windows.push_back({begin, begin + size, begin + size - stride});
  }
  return windows;
}

double SampleMean::mean() const {
  return sum_ / static_cast<double>(count_);
}

double SampleMean::standard_error() const {
  if (count_ < 2) return 0;
  const auto n = static_cast<double>(count_);
  const double variance = sum_of_squares_ / n - mean() * mean();
  return std::sqrt(std::max(variance, 0.0) / (n - 1));
}

double negative_log_likelihood(std::span<const float> logits, TokenId id) {
  return log_sum_exp(logits) - logits[static_cast<size_t>(id)];
}

double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  const double p_total = log_sum_exp(p_logits);
  const double q_total = log_sum_exp(q_logits);
  double sum = 0;
  for (size_t i = 0; i < p_logits.size(); ++i) {
    const double log_p = p_logits[i] - p_total;
    const double p = std::exp(log_p);
    // A token that p excludes adds nothing, whatever q thinks of it.
    if (p > 0) sum += p * (log_p - (q_logits[i] - q_total));
  }
  return std::max(sum, 0.0);  // never below 0 but by rounding
}

Status eval_window(std::span<Model* const> models, std::span<const TokenId> token_ids,
                   const EvalWindow& window, TokenId bos_id, const EvalRowFn& on_row) {
  const auto text = token_ids.subspan(static_cast<size_t>(window.begin),
                                      static_cast<size_t>(window.end - window.begin));
  std::vector<TokenId> ids(text.begin(), text.end());
  if (bos_id >= 0) ids[0] = bos_id;
  std::vector<Logits> pieces(models.size());
  std::vector<std::span<const float>> rows(models.size());
  const int64_t last = window.end - window.begin - 1;  // predicts what is outside
  for (int64_t begin = window.first_predicted - window.begin - 1; begin < last;) {
    const int64_t end = std::min(begin + kPieceRows, last);
    for (size_t m = 0; m < models.size(); ++m) {
      pieces[m] =
          OCTAVO_TRY(models[m]->logits_from(std::span(ids).first(static_cast<size_t>(end)), begin));
    }
    for (int64_t i = begin; i < end; ++i) {
      for (size_t m = 0; m < models.size(); ++m) {
        const auto width = static_cast<size_t>(pieces[m].vocab_size);
        rows[m] =
            std::span(pieces[m].values).subspan(static_cast<size_t>(i - begin) * width, width);
      }
      OCTAVO_TRY(on_row(text[static_cast<size_t>(i) + 1], rows));
    }
    begin = end;
  }
  return {};
}

}  // namespace octavo::cli
