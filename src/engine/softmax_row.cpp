#include "engine/softmax_row.h"

#include <algorithm>
#include <bit>
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

// Long enough for what a block costs beside its loops to count little, short enough that most
// blocks lie below the likeliest tokens.
constexpr size_t kBlock = 256;

OCTAVO_INLINE float larger(float a, float b) {
  return a > b ? a : b;
}

// exp(x) for x in [-87, 0], off by 2 units in the last place at most; for others, anything. It is
// 2^n times the exponential of what is left, which lies in [-ln 2 / 2, ln 2 / 2]: without branches
// and calls, for vectors.
OCTAVO_INLINE float exp_of(float x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // few bits: n times it is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves whole numbers
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = x - n * kLn2High - n * kLn2Low;
  float e = 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  return e * std::bit_cast<float>((exponent + 127) << 23);
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
  for (size_t i = 0; i < kBlock; ++i) weights[i] = exp_of(values[i]);
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
  return x >= kLeastScaled ? exp_of(x) : 0;
}

template <typename Sum>
double SoftmaxRow::sum_blocks(float least, const Sum& sum) {
  bound_ = std::max(least, kLeastScaled);
  double total = 0;
  for (size_t b = 0; b < maxima_.size(); ++b) {
    const bool any = scaled(maxima_[b]) >= bound_;
    sums_[b] = any ? sum(&weights_[b * kBlock], block(b), Scaling{max_, scale_}, bound_) : 0;
    total += sums_[b];
  }
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
  double before = 0;
  size_t chosen = 0;
  for (size_t b = 0; b < sums_.size(); ++b) {
    if (sums_[b] == 0) continue;
    chosen = b;
    if (before + sums_[b] > target) break;
    before += sums_[b];
  }
  // Where rounding leaves the target unreached, it is the last that has a weight.
  size_t last = chosen * kBlock;
  const size_t end = std::min(logits_.size(), last + kBlock);
  for (size_t i = last; i < end && before <= target; ++i) {
    if (weights_[i] == 0 || scaled(logits_[i]) < bound_) continue;
    last = i;
    before += weights_[i];
  }
  return static_cast<TokenId>(last);
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
