// Routing of tokens to experts. Which experts a token gets, and their weights, depend on its own
// logits alone; the slots are filled by one thread, in the order of the tokens.
#include <algorithm>
#include <cmath>

#include "backends/cpu/for_rows.h"
#include "backends/cpu/row_ops.h"

namespace octavo::backends::cpu {
namespace {

// Writes the ids of the largest logits to `chosen`, best first, of equals the lowest id.
void choose_experts(const float* logits, const ops::Routing& routing, int32_t* chosen) {
  for (int64_t j = 0; j < routing.top_k; ++j) {
    int32_t best = -1;
    for (int32_t e = 0; e < routing.num_experts; ++e) {
      // A NaN loses against everything, but for NaN alone there must be an answer too.
      const bool better = best < 0 || logits[e] > logits[best] ||
                          (std::isnan(logits[best]) && !std::isnan(logits[e]));
      if (better && std::find(chosen, chosen + j, e) == chosen + j) best = e;
    }
    chosen[j] = best;
  }
}

// What exp(logit - logits[chosen[0]]) is divided by; the sigmoid needs no other expert.
float score_sum(const float* logits, const int32_t* chosen, const ops::Routing& routing) {
  const float top = logits[chosen[0]];
  float sum = 0;
  if (routing.score == ops::RouterScore::kSoftmax) {
    for (int64_t e = 0; e < routing.num_experts; ++e) sum += std::exp(logits[e] - top);
  } else {
    for (int64_t j = 0; j < routing.top_k; ++j) sum += std::exp(logits[chosen[j]] - top);
  }
  return sum;
}

// Makes the expert ids in plan.slots slots.
void assign_slots(const ops::RouteArgs& a) {
  const ops::Routing& routing = a.routing;
  int32_t* const offsets = a.plan.offsets;
  const int64_t num_slots = a.logits.rows * routing.top_k;
  std::fill(offsets, offsets + routing.num_experts + 1, 0);
  for (int64_t i = 0; i < num_slots; ++i) ++offsets[a.plan.slots[i] + 1];
  for (int64_t e = 0; e < routing.num_experts; ++e) offsets[e + 1] += offsets[e];
  // offsets[e] is the next free slot of e, and in the end where e + 1 begins.
  for (int64_t t = 0; t < a.logits.rows; ++t) {
    const float* logits = a.logits.row<float>(t);
    int32_t* chosen = a.plan.slots + t * routing.top_k;
    const float top = logits[chosen[0]];
    const float sum = score_sum(logits, chosen, routing);
    for (int64_t j = 0; j < routing.top_k; ++j) {
      const float logit = logits[chosen[j]];
      const int32_t slot = offsets[chosen[j]]++;
      a.plan.row_ids[slot] = static_cast<int32_t>(t);
      a.plan.slot_weights[slot] = routing.score == ops::RouterScore::kSigmoid
                                      ? 1 / (1 + std::exp(-logit))
                                      : std::exp(logit - top) / sum;
      chosen[j] = slot;
    }
  }
  for (int64_t e = routing.num_experts; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

}  // namespace

void route(ops::ExecContext& ctx, const ops::RouteArgs& a) {
  const int64_t top_k = a.routing.top_k;
  for_rows(ctx, a.logits.rows, top_k * a.routing.num_experts, [&](int64_t t) {
    choose_experts(a.logits.row<float>(t), a.routing, a.plan.slots + t * top_k);
  });
  assign_slots(a);
}

void combine_experts(ops::ExecContext& ctx, const ops::CombineExpertsArgs& a) {
  for_rows(ctx, a.out.rows, a.top_k * a.out.cols, [&](int64_t t) {
    float* out = a.out.row<float>(t);
    for (int64_t j = 0; j < a.top_k; ++j) {
      const int32_t slot = a.plan.slots[t * a.top_k + j];
      const float weight = a.weighs ? a.plan.slot_weights[slot] : 1;
      const float* y = a.y.row<float>(slot);
      for (int64_t i = 0; i < a.out.cols; ++i) out[i] += weight * y[i];
    }
  });
}

}  // namespace octavo::backends::cpu
