#include "engine/softmax_row.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"

// Loops below are compiled for wider vectors too; which is used, the loader decides. Sanitizers
// are not yet set up when it does.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OCTAVO_VECTOR_CLONES __attribute__((target_clones("default", "avx2")))
#else
#define OCTAVO_VECTOR_CLONES
#endif
#define OCTAVO_INLINE __attribute__((always_inline)) inline

namespace octavo::engine {
namespace {

using ops::draw_weight;
using ops::kLeastScaled;

// Long enough for what a block costs beside its loops to count little, short enough that most
// blocks lie below the likeliest tokens.
constexpr size_t kBlock = ops::kDrawBlock;
constexpr size_t kGroup = ops::kDrawGroup;

OCTAVO_INLINE float larger(float a, float b) {
  return a > b ? a : b;
}

// The reduction of 2 * kHalf values by halves: an order that no vector's width changes.
template <size_t kHalf, typename Fn>
OCTAVO_INLINE float reduce(float* values, Fn fn) {
  for (size_t i = 0; i < kHalf; ++i) values[i] = fn(values[i], values[i + kHalf]);
  if constexpr (kHalf > 1) reduce<kHalf / 2>(values, fn);
  return values[0];
}

OCTAVO_VECTOR_CLONES float block_maximum(const float* logits, bool* has_nan) {
  float values[kBlock / 2];
  uint32_t nans = 0;
  for (size_t i = 0; i < kBlock; ++i) nans |= logits[i] != logits[i] ? 1u : 0u;
  *has_nan = nans != 0;
  for (size_t i = 0; i < kBlock / 2; ++i) values[i] = larger(logits[i], logits[i + kBlock / 2]);
  return reduce<kBlock / 4>(values, larger);
}

// How scaled values come from logits.
struct Scaling {
  float max;
  float scale;
};

// Of the weights of those with a scaled value of at least `bound`.
OCTAVO_VECTOR_CLONES float block_sum(const float* weights, const float* logits, Scaling by,
                                     float bound) {
  float values[kBlock];
  for (size_t i = 0; i < kBlock; ++i) {
    values[i] = (logits[i] - by.max) * by.scale >= bound ? weights[i] : 0.0f;
  }
  return reduce<kBlock / 2>(values, [](float a, float b) { return a + b; });
}

// In loops so simple that GCC finds no reason for a branch, which would cost it the vectors.
OCTAVO_VECTOR_CLONES float block_weights(float* weights, const float* logits, Scaling by,
                                         float least) {
  float values[kBlock];
  for (size_t i = 0; i < kBlock; ++i) values[i] = (logits[i] - by.max) * by.scale;
  for (size_t i = 0; i < kBlock; ++i) weights[i] = draw_weight(values[i]);
  for (size_t i = 0; i < kBlock; ++i) weights[i] = values[i] >= least ? weights[i] : 0.0f;
  for (size_t i = 0; i < kBlock / 2; ++i) values[i] = weights[i] + weights[i + kBlock / 2];
  return reduce<kBlock / 4>(values, [](float a, float b) { return a + b; });
}

}  // namespace

void SoftmaxRow::read(std::span<const float> logits) {
  OCTAVO_CHECK(!logits.empty());
  logits_ = logits;
  scale_ = 1;
  const size_t rest = logits.size() % kBlock;
  tail_.assign(rest == 0 ? 0 : kBlock, -INFINITY);
  std::copy(logits.end() - static_cast<ptrdiff_t>(rest), logits.end(), tail_.begin());
  maxima_.resize((logits.size() + kBlock - 1) / kBlock);
  has_nan_ = false;
  max_ = -INFINITY;
  for (size_t b = 0; b < maxima_.size(); ++b) {
    bool nan = false;
    maxima_[b] = block_maximum(block(b), &nan);
    has_nan_ |= nan;
    max_ = larger(maxima_[b], max_);
  }
}

const float* SoftmaxRow::block(size_t index) const {
  return index < logits_.size() / kBlock ? logits_.data() + index * kBlock : tail_.data();
}

TokenId SoftmaxRow::argmax() const {
  const auto with_it = std::find(maxima_.begin(), maxima_.end(), max_);
  const size_t begin = static_cast<size_t>(with_it - maxima_.begin()) * kBlock;
  const auto found =
      std::find(logits_.begin() + static_cast<ptrdiff_t>(begin), logits_.end(), max_);
  return static_cast<TokenId>(found - logits_.begin());
}

float SoftmaxRow::weight(float logit) const {
  const float x = scaled(logit);
  return x >= kLeastScaled ? draw_weight(x) : 0;
}

template <typename Sum>
double SoftmaxRow::sum_blocks(float least, const Sum& sum) {
  bound_ = std::max(least, kLeastScaled);
  groups_.assign((maxima_.size() + kGroup - 1) / kGroup, 0);
  for (size_t b = 0; b < maxima_.size(); ++b) {
    const bool any = scaled(maxima_[b]) >= bound_;
    sums_[b] = any ? sum(&weights_[b * kBlock], block(b), Scaling{max_, scale_}, bound_) : 0;
    groups_[b / kGroup] += sums_[b];
  }
  double total = 0;
  for (const double group : groups_) total += group;
  return total;
}

double SoftmaxRow::compute_weights(float least) {
  weights_.resize(maxima_.size() * kBlock);
  sums_.resize(maxima_.size());
  return sum_blocks(least, block_weights);
}

double SoftmaxRow::sum_from(float bound) {
  return sum_blocks(bound, block_sum);
}

TokenId SoftmaxRow::find(double target) const {
  const auto end_of = [](int64_t end, size_t size) {
    return std::min(end, static_cast<int64_t>(size));
  };
  double before = 0;
  const int64_t group = ops::walk_to(target, 0, end_of(INT64_MAX, groups_.size()), before,
                                     [&](int64_t g) { return groups_[g]; });
  const int64_t chosen = ops::walk_to(target, group * ops::kDrawGroup,
                                      end_of((group + 1) * ops::kDrawGroup, sums_.size()), before,
                                      [&](int64_t b) { return sums_[b]; });
  const int64_t id = ops::walk_to(
      target, chosen * ops::kDrawBlock, end_of((chosen + 1) * ops::kDrawBlock, size()), before,
      [&](int64_t i) { return scaled(logits_[i]) >= bound_ ? weights_[i] : 0; });
  return static_cast<TokenId>(id);
}

void SoftmaxRow::collect(float least, float below, std::vector<Candidate>& candidates) const {
  for (size_t b = 0; b < maxima_.size(); ++b) {
    if (scaled(maxima_[b]) < least) continue;
    const size_t end = std::min(logits_.size(), (b + 1) * kBlock);
    size_t found[kBlock];  // without branches, which nobody could predict
    size_t count = 0;
    for (size_t i = b * kBlock; i < end; ++i) {
      const float x = scaled(logits_[i]);
      found[count] = i;
      count += static_cast<size_t>(x >= least) & static_cast<size_t>(x < below);
    }
    for (size_t i = 0; i < count; ++i) {
      candidates.push_back({logits_[found[i]], static_cast<TokenId>(found[i])});
    }
  }
}

void SoftmaxRow::collect_top(size_t count, std::vector<Candidate>& candidates) const {
  // So many blocks have a logit of at least this: there are no fewer such logits.
  float least = -INFINITY;
  if (count > 0 && count <= maxima_.size() && !has_nan_) {
    std::vector<float> maxima = maxima_;
    const auto nth = maxima.begin() + static_cast<ptrdiff_t>(count) - 1;
    std::nth_element(maxima.begin(), nth, maxima.end(), std::greater<>());
    least = scaled(*nth);
  }
  collect(least, INFINITY, candidates);
  count = std::min(count, candidates.size());
  const auto end = candidates.begin() + static_cast<ptrdiff_t>(count);
  std::nth_element(candidates.begin(), end, candidates.end());
  candidates.erase(end, candidates.end());
  std::sort(candidates.begin(), candidates.end());
}

}  // namespace octavo::engine
