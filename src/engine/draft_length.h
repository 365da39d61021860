// DraftLength: how many tokens it pays to guess for one sequence, by how its last guesses fared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace octavo::engine {

class DraftLength {
 public:
  // As many guesses as are right with at least the probability `threshold`, `most` of them at the
  // most: a guess is of use only where all before it are right. Where not even one pays, now and
  // then one all the same, to see whether that has changed.
  int64_t next(double threshold, int64_t most) {
    if (threshold >= 1) return 0;
    probing_ = rate_ < threshold;
    if (!probing_) {
      const double length = std::log(threshold) / std::log(rate_);  // infinite for 0
      return static_cast<int64_t>(std::min(static_cast<double>(most), length));
    }
    if (num_waited_++ < patience_) return 0;
    return std::min<int64_t>(most, 1);
  }

  void observe(int64_t num_drafted, int64_t num_accepted) {
    for (int64_t i = 0; i < num_accepted; ++i) rate_ += (kMostRate - rate_) * kWeight;
    if (num_accepted < num_drafted) rate_ -= rate_ * kWeight;
    num_waited_ = 0;
    if (num_accepted > 0) {
      patience_ = kLeastPatience;
    } else if (probing_) {
      patience_ = std::min(2 * patience_, kMostPatience);
    }
  }

 private:
  // A guess is at first believed to be right more often than not; some six wrong ones in a row end
  // that, which a text of a hundred tokens does not notice.
  static constexpr double kFirstRate = 0.7;
  static constexpr double kMostRate = 0.98;
  static constexpr double kWeight = 0.25;  // of the last guess among all
  static constexpr int64_t kLeastPatience = 4;
  static constexpr int64_t kMostPatience = 64;

  double rate_ = kFirstRate;
  bool probing_ = false;    // the last guess was to see whether guesses pay again
  int64_t num_waited_ = 0;  // steps without a guess
  int64_t patience_ = kLeastPatience;
};

}  // namespace octavo::engine
