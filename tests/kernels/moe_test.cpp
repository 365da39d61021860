// Routing to experts and back, every kernel of the table against the oracle and against what
// routing means.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernel_test_util.h"
#include "tolerance.h"

namespace octavo::testing {
namespace {

using backends::cpu::Kernel;
using ops::RouterScore;

struct Plan {
  Plan(int64_t tokens, const ops::Routing& routing)
      : offsets(routing.num_experts + 1, -1),
        row_ids(tokens * routing.top_k, -1),
        slots(tokens * routing.top_k, -1),
        weights(tokens * routing.top_k, kNan) {}

  ops::ExpertPlan view() { return {offsets.data(), row_ids.data(), weights.data(), slots.data()}; }

  std::vector<int32_t> offsets, row_ids, slots;
  std::vector<float> weights;
};

// The expert that owns a slot.
int64_t owner(const Plan& plan, int32_t slot) {
  return std::upper_bound(plan.offsets.begin(), plan.offsets.end(), slot) - plan.offsets.begin() -
         1;
}

const ops::Routing kRoutings[] = {
    {1, 1, RouterScore::kSoftmax},       {4, 2, RouterScore::kSoftmaxOfTopK},
    {16, 1, RouterScore::kSigmoid},      {128, 8, RouterScore::kSoftmaxOfTopK},
    {60, 4, RouterScore::kSoftmax},      {8, 8, RouterScore::kSoftmaxOfTopK},
    {16, 3, RouterScore::kSigmoid, true}};

TEST(Experts, RouteAgreesWithTheOracle) {
  Rng rng(1);
  for (const ops::Routing& routing : kRoutings) {
    for (const int64_t tokens : {1, 3, 150}) {
      PaddedMat logits = PaddedMat::random(rng, tokens, routing.num_experts);
      for (int64_t t = 0; t < tokens; t += 2) {  // ties
        for (int64_t e = 0; e < routing.num_experts; ++e)
          logits.at(t, e) = std::round(logits.at(t, e));
      }
      Plan expected(tokens, routing);
      ops::ExecContext ctx;
      backends::ref::route(ctx, {expected.view(), logits, routing});
      for (const Kernel* kernel : runnable_kernels("route")) {
        Plan actual(tokens, routing);
        Context context(2, tokens, 64);
        call<ops::RouteArgs>(*kernel, context, {actual.view(), logits, routing});
        ASSERT_EQ(actual.offsets, expected.offsets);
        ASSERT_EQ(actual.row_ids, expected.row_ids);
        ASSERT_EQ(actual.slots, expected.slots);
        for (size_t i = 0; i < actual.weights.size(); ++i) {
          ASSERT_NEAR(actual.weights[i], expected.weights[i], kExperts);
        }
      }
    }
  }
}

TEST(Experts, RoutePicksTheLargestAndGroupsThem) {
  Rng rng(2);
  const ops::Routing routing = {16, 3, RouterScore::kSoftmaxOfTopK};
  const PaddedMat logits = PaddedMat::random(rng, 40, 16);
  Plan plan(40, routing);
  ops::ExecContext ctx;
  backends::ref::route(ctx, {plan.view(), logits, routing});
  for (int64_t t = 0; t < 40; ++t) {
    double sum = 0;
    std::set<int64_t> chosen;
    double last = 1e30;
    for (int64_t j = 0; j < 3; ++j) {
      const int32_t slot = plan.slots[t * 3 + j];
      ASSERT_EQ(plan.row_ids[slot], t);
      const int64_t expert = owner(plan, slot);
      chosen.insert(expert);
      ASSERT_LE(logits.at(t, expert), last);
      last = logits.at(t, expert);
      sum += plan.weights[slot];
    }
    ASSERT_EQ(chosen.size(), 3u);
    ASSERT_NEAR(sum, 1, 1e-6);
    for (int64_t e = 0; e < 16; ++e) ASSERT_TRUE(chosen.contains(e) || logits.at(t, e) <= last);
  }
}

// Whatever the logits hold, slots stay within bounds and every token has its number of experts.
TEST(Experts, RouteSurvivesNan) {
  const ops::Routing routing = {5, 2, RouterScore::kSoftmax};
  PaddedMat logits(3, 5);
  for (int64_t e = 0; e < 5; ++e) {
    logits.at(0, e) = kNan;
    logits.at(1, e) = e == 2 ? kNan : static_cast<float>(e);
    logits.at(2, e) = e % 2 == 0 ? std::numeric_limits<float>::infinity() : kNan;
  }
  std::vector<Plan> plans;
  plans.emplace_back(3, routing);
  ops::ExecContext ctx;
  backends::ref::route(ctx, {plans.back().view(), logits, routing});
  for (const Kernel* kernel : runnable_kernels("route")) {
    plans.emplace_back(3, routing);
    Context context(1, 3, 64);
    call<ops::RouteArgs>(*kernel, context, {plans.back().view(), logits, routing});
  }
  for (const Plan& plan : plans) {
    EXPECT_EQ(plan.offsets.front(), 0);
    EXPECT_EQ(plan.offsets.back(), 6);
    EXPECT_TRUE(std::is_sorted(plan.offsets.begin(), plan.offsets.end()));
    auto slots = plan.slots;
    std::sort(slots.begin(), slots.end());
    EXPECT_EQ(slots, std::vector<int32_t>({0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(owner(plan, plan.slots[2]), 4);  // of token 1, past the NaN
    EXPECT_EQ(owner(plan, plan.slots[3]), 3);
  }
}

TEST(Experts, CombineAddsInTheOrderOfTheRouter) {
  Rng rng(3);
  for (const ops::Routing& routing : kRoutings) {
    const int64_t tokens = 33;
    const PaddedMat logits = PaddedMat::random(rng, tokens, routing.num_experts);
    Plan plan(tokens, routing);
    ops::ExecContext ctx;
    backends::ref::route(ctx, {plan.view(), logits, routing});
    const PaddedMat y = PaddedMat::random(rng, tokens * routing.top_k, 70);
    const PaddedMat x = PaddedMat::random(rng, tokens, 70);
    const bool weighs = !routing.weighs_input;
    PaddedMat in_order = x;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t j = 0; j < routing.top_k; ++j) {
        const int32_t slot = plan.slots[t * routing.top_k + j];
        for (int64_t i = 0; i < 70; ++i) {
          in_order.at(t, i) += (weighs ? plan.weights[slot] : 1) * y.at(slot, i);
        }
      }
    }
    const PaddedMat expected = x;
    backends::ref::combine_experts(ctx, {expected, y, plan.view(), routing.top_k, weighs});
    EXPECT_LE(relative_error(in_order, expected), kExperts);
    for (const Kernel* kernel : runnable_kernels("combine_experts")) {
      for (const int threads : {1, 2}) {
        const PaddedMat out = x;
        Context context(threads, tokens, 70);
        call<ops::CombineExpertsArgs>(*kernel, context,
                                      {out, y, plan.view(), routing.top_k, weighs});
        EXPECT_LE(relative_error(out, in_order), 1e-7);
        EXPECT_TRUE(out.padding_is_untouched());
      }
    }
  }
}

}  // namespace
}  // namespace octavo::testing
