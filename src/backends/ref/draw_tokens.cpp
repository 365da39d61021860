#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {
namespace {

class Row {
 public:
  Row(const float* logits, int64_t size, const ops::RowDraw& draw)
      : logits_(logits), size_(size), draw_(draw) {}

  int32_t token() {
    if (draw_.kind == ops::DrawKind::kNone) return -1;
    if (std::any_of(logits_, logits_ + size_, [](float x) { return std::isnan(x); })) return -1;
    const float* const largest = std::max_element(logits_, logits_ + size_);
    if (!std::isfinite(*largest)) return -1;
    if (draw_.kind == ops::DrawKind::kGreedy) return static_cast<int32_t>(largest - logits_);
    max_ = *largest;
    bound_ = draw_.least;
    if (draw_.top_k > 0 && draw_.top_k < size_) return draw_from_top_k();
    const double sum = sum_from(bound_);
    if (draw_.top_p < 1) return draw_from_top_p(sum * static_cast<double>(draw_.top_p));
    return find(draw_.share * sum);
  }

 private:
  float scaled(int64_t i) const { return (logits_[i] - max_) * draw_.scale; }
  float weight(int64_t i) const {
    return scaled(i) >= ops::kLeastScaled ? ops::draw_weight(scaled(i)) : 0;
  }

  float block_sum(int64_t block) const {
    float values[ops::kDrawBlock] = {};
    const int64_t begin = block * ops::kDrawBlock;
    for (int64_t i = begin; i < std::min(size_, begin + ops::kDrawBlock); ++i) {
      values[i - begin] = scaled(i) >= bound_ ? weight(i) : 0;
    }
    for (int64_t half = ops::kDrawBlock / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) values[i] += values[i + half];
    }
    return values[0];
  }

  double group_sum(int64_t group) const {
    double sum = 0;
    for (int64_t b = group * ops::kDrawGroup; b < std::min(blocks(), (group + 1) * ops::kDrawGroup);
         ++b) {
      sum += block_sum(b);
    }
    return sum;
  }

  int64_t blocks() const { return (size_ + ops::kDrawBlock - 1) / ops::kDrawBlock; }
  int64_t groups() const { return (blocks() + ops::kDrawGroup - 1) / ops::kDrawGroup; }

  double sum_from(float bound) {
    bound_ = bound;
    double sum = 0;
    for (int64_t g = 0; g < groups(); ++g) sum += group_sum(g);
    return sum;
  }

  int32_t find(double target) const {
    double before = 0;
    const int64_t group =
        ops::walk_to(target, 0, groups(), before, [&](int64_t g) { return group_sum(g); });
    const int64_t first = group * ops::kDrawGroup;
    const int64_t block = ops::walk_to(target, first, std::min(blocks(), first + ops::kDrawGroup),
                                       before, [&](int64_t b) { return block_sum(b); });
    const int64_t begin = block * ops::kDrawBlock;
    return static_cast<int32_t>(
        ops::walk_to(target, begin, std::min(size_, begin + ops::kDrawBlock), before,
                     [&](int64_t i) { return scaled(i) >= bound_ ? weight(i) : 0; }));
  }

  // Those with a scaled value in [least, below), the likeliest first.
  std::vector<int64_t> candidates(float least, float below) const {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < size_; ++i) {
      if (scaled(i) >= least && scaled(i) < below) ids.push_back(i);
    }
    std::stable_sort(ids.begin(), ids.end(),
                     [&](int64_t a, int64_t b) { return logits_[a] > logits_[b]; });
    return ids;
  }

  int32_t draw_from_top_k() const {
    std::vector<int64_t> ids = candidates(-INFINITY, INFINITY);
    ids.resize(static_cast<size_t>(draw_.top_k));
    while (scaled(ids.back()) < draw_.least) ids.pop_back();
    double sum = 0;
    for (const int64_t id : ids) sum += weight(id);
    if (draw_.top_p < 1) cut(ids, 0, sum * static_cast<double>(draw_.top_p));
    return draw_from(0, ids);
  }

  int32_t draw_from_top_p(double reach) {
    float below = 0.5f;
    float from = -1;
    while (from > draw_.least && sum_from(from) < reach) {
      below = from;
      from *= 2;
    }
    from = std::max(from, draw_.least);
    for (int i = 0; i < 8; ++i) {
      const float middle = (from + std::min(below, 0.0f)) / 2;
      (sum_from(middle) < reach ? below : from) = middle;
    }
    const double above = sum_from(below);
    std::vector<int64_t> ids = candidates(from, below);
    cut(ids, above, reach);
    return draw_from(above, ids);
  }

  // Leaves as few as reach `reach` together with `sum`.
  void cut(std::vector<int64_t>& ids, double sum, double reach) const {
    size_t count = 0;
    for (; count < ids.size() && sum < reach; ++count) sum += weight(ids[count]);
    ids.resize(count);
  }

  // From all above the bound, which add up to `above`, and `ids`.
  int32_t draw_from(double above, const std::vector<int64_t>& ids) const {
    double sum = above;
    for (const int64_t id : ids) sum += weight(id);
    const double target = draw_.share * sum;
    if (target < above || ids.empty()) return find(target);
    sum = above;
    for (const int64_t id : ids) {
      sum += weight(id);
      if (target < sum) return static_cast<int32_t>(id);
    }
    return static_cast<int32_t>(ids.back());
  }

  const float* logits_;
  int64_t size_;
  const ops::RowDraw& draw_;
  float max_ = 0;
  float bound_ = 0;
};

}  // namespace

void draw_tokens(ops::ExecContext&, const ops::DrawTokensArgs& a) {
  for (int64_t i = 0; i < a.logits.rows; ++i) {
    a.token_ids[i] = Row(a.logits.row<float>(i), a.logits.cols, a.draws[i]).token();
  }
}

}  // namespace octavo::backends::ref
