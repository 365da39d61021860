// Distribution: how long things took, in bounded memory: percentiles to 5 % of their value, mean
// and variance exactly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace octavo::server {

class Distribution {
 public:
  void observe(double seconds, int64_t times = 1);
  void add(const Distribution& other);

  int64_t count() const { return count_; }
  double mean() const;
  double variance() const;                  // of the sample, 0 of fewer than two
  double percentile(double percent) const;  // 0 of none

 private:
  static constexpr int kBucketsPerOctave = 16;  // a bucket's bounds are 4.4 % apart
  static constexpr int kNumOctaves = 30;
  static constexpr double kLeast = 1e-5;  // seconds; below, and beyond 3 hours, min and max tell

  std::array<uint32_t, size_t{kBucketsPerOctave} * kNumOctaves> buckets_{};
  int64_t count_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
  double min_ = 0;
  double max_ = 0;
};

struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

// The difference of the means, b - a, with its interval of 95 % by the normal approximation
// (Welch). Good from some thirty values on either side; both must have two at least.
Interval difference_of_means(const Distribution& a, const Distribution& b);

}  // namespace octavo::server
