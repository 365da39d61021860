// What the kernel tests share: random data from a seed, matrices whose padding is poisoned, weights
// of every type, and a context with exactly the workspace that was promised.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/table.h"
#include "backends/ref/ref.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "ops/ops.h"
#include "support/random_blocks.h"

namespace octavo::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline int64_t random_int(Rng& rng, int64_t begin, int64_t end) {
  return begin + static_cast<int64_t>(rng.next_u64() % static_cast<uint64_t>(end - begin));
}

// A float32 matrix with a stride that is larger than its rows; everything beyond is NaN.
class PaddedMat {
 public:
  PaddedMat(int64_t rows, int64_t cols, int64_t padding = 5)
      : values_(rows * (cols + padding) + padding, kNan),
        mat_(values_.data(), DType::kF32, rows, cols, cols + padding) {}
  PaddedMat(PaddedMat&&) = default;  // the buffer stays where it is
  PaddedMat(const PaddedMat& other) : values_(other.values_), mat_(other.mat_) {
    mat_.data = values_.data();
  }
  PaddedMat& operator=(const PaddedMat&) = delete;

  static PaddedMat random(Rng& rng, int64_t rows, int64_t cols, int64_t padding = 5) {
    PaddedMat m(rows, cols, padding);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) m.at(i, j) = random_normal(rng);
    }
    return m;
  }

  const ops::Mat& mat() const { return mat_; }
  operator const ops::Mat&() const { return mat_; }
  float& at(int64_t i, int64_t j) { return mat_.row<float>(i)[j]; }
  float at(int64_t i, int64_t j) const { return mat_.row<float>(i)[j]; }

  bool padding_is_untouched() const {
    for (size_t i = 0; i < values_.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / mat_.stride;
      const auto col = static_cast<int64_t>(i) % mat_.stride;
      if ((row >= mat_.rows || col >= mat_.cols) && !std::isnan(values_[i])) return false;
    }
    return true;
  }

 private:
  std::vector<float> values_;
  ops::Mat mat_;
};

// The same bits in rows [begin, begin + a.rows) of b as in a.
inline bool same_bits(const PaddedMat& a, const PaddedMat& b, int64_t begin = 0) {
  for (int64_t i = 0; i < a.mat().rows; ++i) {
    const size_t bytes = a.mat().cols * sizeof(float);
    if (std::memcmp(a.mat().row<float>(i), b.mat().row<float>(begin + i), bytes) != 0) return false;
  }
  return true;
}

inline double largest_magnitude(const PaddedMat& m) {
  double largest = 0;
  for (int64_t i = 0; i < m.mat().rows; ++i) {
    for (int64_t j = 0; j < m.mat().cols; ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(m.at(i, j))));
    }
  }
  return largest;
}

// Of differences the largest so far; a NaN stays.
inline double larger(double error, double difference) {
  return std::isnan(error) || difference <= error ? error : difference;
}

// The largest difference relative to the largest magnitude of `expected`; NaN if there is one.
inline double relative_error(const PaddedMat& actual, const PaddedMat& expected) {
  double error = 0;
  for (int64_t i = 0; i < expected.mat().rows; ++i) {
    for (int64_t j = 0; j < expected.mat().cols; ++j) {
      const double difference = std::abs(static_cast<double>(actual.at(i, j)) - expected.at(i, j));
      error = larger(error, difference);
    }
  }
  return error / std::max(largest_magnitude(expected), 1e-30);
}

// Random weights of about unit variance, every code of the type included.
ops::Weight random_weight(Rng& rng, DType dtype, int64_t rows, int64_t cols);

// An ExecContext for calls of up to `rows` rows of `cols` values.
class Context {
 public:
  Context(int num_threads, int64_t rows, int64_t cols);
  ops::ExecContext& operator*() { return ctx_; }

 private:
  ThreadPool pool_;
  std::unique_ptr<std::byte[]> memory_;
  ops::ExecContext ctx_;
};

// The rows of the CPU's table that hold a kernel of type Fn and that this machine can run.
std::vector<const backends::cpu::Kernel*> runnable_kernels(std::string_view op);

template <typename Args>
void call(const backends::cpu::Kernel& kernel, Context& context, const Args& args) {
  std::get<ops::OpFn<Args>>(kernel.fn)(*context, args);
}

}  // namespace octavo::testing
