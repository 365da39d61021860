#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/ref/ref.h"

namespace octavo::backends::ref {
namespace {

// The experts of one token, best first.
std::vector<int64_t> top_experts(const float* logits, const ops::Routing& routing) {
  const auto key = [&](int64_t e) {  // a NaN must not upset the order
    return std::isnan(logits[e]) ? -std::numeric_limits<float>::infinity() : logits[e];
  };
  std::vector<int64_t> order(routing.num_experts);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return key(a) > key(b); });
  order.resize(routing.top_k);
  return order;
}

double expert_weight(const float* logits, const std::vector<int64_t>& chosen, int64_t expert,
                     const ops::Routing& routing) {
  const double logit = logits[expert];
  if (routing.score == ops::RouterScore::kSigmoid) return 1 / (1 + std::exp(-logit));
  double sum = 0;
  if (routing.score == ops::RouterScore::kSoftmax) {
    for (int64_t e = 0; e < routing.num_experts; ++e) sum += std::exp(logits[e] - logit);
  } else {
    for (const int64_t e : chosen) sum += std::exp(logits[e] - logit);
  }
  return 1 / sum;
}

}  // namespace

void route(ops::ExecContext&, const ops::RouteArgs& a) {
  int32_t slot = 0;
  for (int64_t e = 0; e < a.routing.num_experts; ++e) {
    a.plan.offsets[e] = slot;
    for (int64_t t = 0; t < a.logits.rows; ++t) {
      const float* logits = a.logits.row<float>(t);
      const std::vector<int64_t> chosen = top_experts(logits, a.routing);
      const auto found = std::find(chosen.begin(), chosen.end(), e);
      if (found == chosen.end()) continue;
      a.plan.row_ids[slot] = static_cast<int32_t>(t);
      a.plan.slot_weights[slot] = static_cast<float>(expert_weight(logits, chosen, e, a.routing));
      a.plan.slots[t * a.routing.top_k + (found - chosen.begin())] = slot++;
    }
  }
  a.plan.offsets[a.routing.num_experts] = slot;
}

void combine_experts(ops::ExecContext&, const ops::CombineExpertsArgs& a) {
  for (int64_t t = 0; t < a.out.rows; ++t) {
    for (int64_t i = 0; i < a.out.cols; ++i) {
      double sum = a.out.row<float>(t)[i];
      for (int64_t j = 0; j < a.top_k; ++j) {
        const int32_t slot = a.plan.slots[t * a.top_k + j];
        const double weight = a.weighs ? a.plan.slot_weights[slot] : 1;
        sum += weight * a.y.row<float>(slot)[i];
      }
      a.out.row<float>(t)[i] = static_cast<float>(sum);
    }
  }
}

}  // namespace octavo::backends::ref
