#include "engine/pooler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace octavo::engine {

void Pooler::add(const ops::Mat& hidden) {
  values_.resize(static_cast<size_t>(hidden.cols));
  const bool sums = params_.pooling_type == PoolingType::kMean;
  for (int64_t i = 0; i < hidden.rows; ++i) {
    const auto* row = hidden.row<float>(i);
    for (size_t j = 0; j < values_.size(); ++j) values_[j] = (sums ? values_[j] : 0.0) + row[j];
  }
  num_rows_ += hidden.rows;
}

Result<std::vector<float>> Pooler::take() const {
  OCTAVO_CHECK(num_rows_ > 0);
  size_t size = values_.size();
  if (params_.dimensions > 0) size = std::min(size, static_cast<size_t>(params_.dimensions));
  double scale = 1;
  if (params_.pooling_type == PoolingType::kMean) scale = 1 / static_cast<double>(num_rows_);
  if (params_.normalize) {
    double sum = 0;
    for (size_t j = 0; j < size; ++j) sum += values_[j] * values_[j];
    // As torch's normalize: what has no length stays 0.
    constexpr double kLeastLength = 1e-12;
    scale = 1 / std::max(std::sqrt(sum), kLeastLength);
  }
  std::vector<float> result(size);
  for (size_t j = 0; j < size; ++j) {
    result[j] = static_cast<float>(values_[j] * scale);
    if (!std::isfinite(result[j])) {
      return internal_error("the model's hidden states are not finite: its weights are damaged");
    }
  }
  return result;
}

}  // namespace octavo::engine
