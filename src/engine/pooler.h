// Pooler: the hidden states of a prompt's tokens, as they come, into one vector.
#pragma once

#include <cstdint>
#include <vector>

#include "octavo/request.h"
#include "octavo/status.h"
#include "ops/mat.h"

namespace octavo::engine {

class Pooler {
 public:
  explicit Pooler(const PoolingParams& params) : params_(params) {}

  // The rows of further positions, in order; how they are divided into calls makes no difference.
  void add(const ops::Mat& hidden);

  // The vector, once all rows are there. One that is not finite is an error.
  Result<std::vector<float>> take() const;

 private:
  PoolingParams params_;
  std::vector<double> values_;  // the last row, or the sum of all
  int64_t num_rows_ = 0;
};

}  // namespace octavo::engine
