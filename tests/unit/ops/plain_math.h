// Formulas written out in double, for tests of composite ops.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "ops/ops.h"

namespace octavo::ops {

using Matrix = std::vector<std::vector<double>>;

// A float matrix that owns its values, with a view and a copy in double.
struct Values {
  Values(Rng& rng, int64_t r, int64_t c) : rows(r), cols(c), data(r * c) {
    for (float& v : data) v = static_cast<float>(rng.next_double() - 0.5);
  }
  Mat mat() { return {data.data(), DType::kF32, rows, cols}; }
  Weight weight() const {
    Weight w;
    w.rows = rows;
    w.cols = cols;
    w.data = reinterpret_cast<const std::byte*>(data.data());
    return w;
  }
  Matrix matrix() const {
    Matrix m(rows, std::vector<double>(cols));
    for (int64_t i = 0; i < rows * cols; ++i) m[i / cols][i % cols] = data[i];
    return m;
  }

  int64_t rows;
  int64_t cols;
  std::vector<float> data;
};

inline Matrix times_transposed(const Matrix& x, const Values& w, const float* bias) {
  Matrix out(x.size(), std::vector<double>(w.rows));
  for (size_t t = 0; t < x.size(); ++t) {
    for (int64_t n = 0; n < w.rows; ++n) {
      out[t][n] = bias == nullptr ? 0 : bias[n];
      for (int64_t k = 0; k < w.cols; ++k) out[t][n] += x[t][k] * w.data[n * w.cols + k];
    }
  }
  return out;
}

inline Matrix normed(const Matrix& x, const Values& weight, double eps) {
  Matrix out = x;
  for (auto& row : out) {
    double squares = 0;
    for (const double v : row) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + eps);
    for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight.data[i];
  }
  return out;
}

inline void expect_near(const Values& actual, const Matrix& expected) {
  for (int64_t i = 0; i < actual.rows * actual.cols; ++i) {
    ASSERT_NEAR(actual.data[i], expected[i / actual.cols][i % actual.cols], 1e-5) << i;
  }
}

}  // namespace octavo::ops
