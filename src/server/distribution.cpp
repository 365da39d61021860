#include "server/distribution.h"

#include <algorithm>
#include <cmath>

namespace octavo::server {

void Distribution::observe(double seconds, int64_t times) {
  const double octaves = std::log2(std::max(kLeast, seconds) / kLeast);
  const double at = std::min(octaves * kBucketsPerOctave, static_cast<double>(buckets_.size() - 1));
  buckets_[static_cast<size_t>(at)] += static_cast<uint32_t>(times);
  min_ = count_ == 0 ? seconds : std::min(min_, seconds);
  max_ = count_ == 0 ? seconds : std::max(max_, seconds);
  count_ += times;
  sum_ += seconds * static_cast<double>(times);
  sum_of_squares_ += seconds * seconds * static_cast<double>(times);
}

void Distribution::add(const Distribution& other) {
  if (other.count_ == 0) return;
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = count_ == 0 ? other.max_ : std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

double Distribution::mean() const {
  return count_ > 0 ? sum_ / static_cast<double>(count_) : 0;
}

double Distribution::variance() const {
  if (count_ < 2) return 0;
  const double count = static_cast<double>(count_);
  return std::max(0.0, (sum_of_squares_ - sum_ * sum_ / count) / (count - 1));
}

double Distribution::percentile(double percent) const {
  const double rank = percent / 100 * static_cast<double>(count_);
  double below = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const double inside = buckets_[i];
    if (inside == 0 || below + inside < rank) {
      below += inside;
      continue;
    }
    if (i + 1 == buckets_.size()) break;  // it has no upper bound
    const double share = (rank - below) / inside;
    const double value = kLeast * std::exp2((static_cast<double>(i) + share) / kBucketsPerOctave);
    return std::clamp(value, min_, max_);
  }
  return max_;
}

Interval difference_of_means(const Distribution& a, const Distribution& b) {
  constexpr double kNormal95 = 1.959964;
  const double mean = b.mean() - a.mean();
  const double error = std::sqrt(a.variance() / static_cast<double>(a.count()) +
                                 b.variance() / static_cast<double>(b.count()));
  return {mean, mean - kNormal95 * error, mean + kNormal95 * error};
}

}  // namespace octavo::server
