// SoftmaxRow: a row of logits as the softmax sees it, for sampling and logprobs. A logit x has the
// scaled value (x - max) * scale, at most 0, and its weight is the exponential of that.
//
// It reads the row in blocks, in loops that compilers vectorise, and keeps a maximum and a sum for
// each: whole blocks can then be passed over. Sums and exponentials are those of ops/draw_args.h,
// the same bits on every machine, so that a seed gives the same answer everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "octavo/tokenizer.h"
#include "ops/draw_args.h"

namespace octavo::engine {

struct Candidate {
  float logit = 0;
  TokenId id = 0;

  // The likelier first; of equal ones that with the lower id.
  bool operator<(const Candidate& other) const {
    return logit != other.logit ? logit > other.logit : id < other.id;
  }
};

class SoftmaxRow {
 public:
  // `logits`, at least one, must outlive what follows; the scale becomes 1.
  void read(std::span<const float> logits);

  size_t size() const { return logits_.size(); }
  bool has_nan() const { return has_nan_; }
  float max() const { return max_; }
  TokenId argmax() const;  // the first of the largest

  void set_scale(float scale) { scale_ = scale; }
  float scaled(float logit) const { return (logit - max_) * scale_; }
  float weight(float logit) const;

  // Computes the weights of all with a scaled value of at least `least`; others have none from then
  // on. Returns their sum.
  double compute_weights(float least);

  // After it, the sum of the weights of those with a scaled value of at least `bound`.
  double sum_from(float bound);

  // The first id up to which the weights of the last sum reach beyond `target`, which is less than
  // that sum.
  TokenId find(double target) const;

  // Appends all with a scaled value in [least, below), by id.
  void collect(float least, float below, std::vector<Candidate>& candidates) const;

  // Makes `candidates`, empty, the `count` first of all, or all, in order.
  void collect_top(size_t count, std::vector<Candidate>& candidates) const;

 private:
  const float* block(size_t index) const;
  // Sums up what `sum` makes of each block with a scaled value of at least `least`.
  template <typename Sum>
  double sum_blocks(float least, const Sum& sum);

  std::span<const float> logits_;
  bool has_nan_ = false;
  float max_ = 0;
  float scale_ = 1;
  float bound_ = 0;             // of the last sum
  std::vector<float> tail_;     // the last block where it is no whole one; the rest -inf
  std::vector<float> maxima_;   // of each block
  std::vector<float> sums_;     // the same, of the last sum
  std::vector<double> groups_;  // sums of groups of blocks
  std::vector<float> weights_;  // of whole blocks
};

}  // namespace octavo::engine
