// A mixture of experts, composed of the oracle's primitives, against each token worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/ref/ref.h"
#include "plain_math.h"

namespace octavo::ops {
namespace {

constexpr int64_t kTokens = 7;
constexpr int64_t kHidden = 8;
constexpr int64_t kInter = 6;
constexpr int64_t kShared = 4;
constexpr size_t kExperts = 5;
constexpr int64_t kTopK = 2;

struct Mlp {
  Mlp(Rng& rng, int64_t inter)
      : gate(rng, inter, kHidden), up(rng, inter, kHidden), down(rng, kHidden, inter) {}

  std::vector<double> operator()(const std::vector<double>& in) const {
    Matrix mixed = times_transposed({in}, gate, nullptr);
    const Matrix u = times_transposed({in}, up, nullptr);
    for (size_t i = 0; i < mixed[0].size(); ++i) {
      mixed[0][i] *= u[0][i] / (1 + std::exp(-mixed[0][i]));
    }
    return times_transposed(mixed, down, nullptr)[0];
  }

  Values gate, up, down;
};

struct Model {
  explicit Model(Rng& rng)
      : x(rng, kTokens, kHidden),
        norm(rng, 1, kHidden),
        router(rng, kExperts, kHidden),
        shared(rng, kShared) {
    for (size_t e = 0; e < kExperts; ++e) experts.emplace_back(rng, kInter);
  }

  // The two experts with the largest logits, best first.
  static std::vector<size_t> choose(const std::vector<double>& logits) {
    size_t first = 0;
    for (size_t e = 1; e < kExperts; ++e) first = logits[e] > logits[first] ? e : first;
    size_t second = first == 0 ? 1 : 0;
    for (size_t e = 0; e < kExperts; ++e) {
      if (e != first && logits[e] > logits[second]) second = e;
    }
    return {first, second};
  }

  Matrix expected(const Routing& routing) const {
    const Matrix h = normed(x.matrix(), norm, 1e-5);
    const Matrix logits = times_transposed(h, router, nullptr);
    Matrix result = x.matrix();
    for (size_t t = 0; t < kTokens; ++t) {
      const auto chosen = choose(logits[t]);
      double sum = 0;
      for (size_t e = 0; e < kExperts; ++e) {
        const bool counts =
            routing.score == RouterScore::kSoftmax || e == chosen[0] || e == chosen[1];
        if (counts) sum += std::exp(logits[t][e]);
      }
      for (const size_t e : chosen) {
        const double weight = routing.score == RouterScore::kSigmoid
                                  ? 1 / (1 + std::exp(-logits[t][e]))
                                  : std::exp(logits[t][e]) / sum;
        std::vector<double> in = h[t];
        for (double& value : in) value *= routing.weighs_input ? weight : 1;
        const auto y = experts[e](in);
        for (size_t i = 0; i < kHidden; ++i) {
          result[t][i] += (routing.weighs_input ? 1 : weight) * y[i];
        }
      }
      const auto y = shared(h[t]);
      for (size_t i = 0; i < kHidden; ++i) result[t][i] += y[i];
    }
    return result;
  }

  Values x, norm, router;
  std::vector<Mlp> experts;
  Mlp shared;
};

void run(Rng& rng, Model& model, const Routing& routing) {
  std::vector<Weight> gates, ups, downs;
  for (const Mlp& expert : model.experts) {
    gates.push_back(expert.gate.weight());
    ups.push_back(expert.up.weight());
    downs.push_back(expert.down.weight());
  }
  const Weight router = model.router.weight();
  const Weight shared_gate = model.shared.gate.weight();
  const Weight shared_up = model.shared.up.weight();
  const Weight shared_down = model.shared.down.weight();
  Values scratch(rng, kTokens, kHidden), router_logits(rng, kTokens, kExperts);
  Values expert_x(rng, kTokens * kTopK, kHidden), expert_gate(rng, kTokens * kTopK, kInter);
  Values expert_up(rng, kTokens * kTopK, kInter);
  Values gate(rng, kTokens, kShared), up(rng, kTokens, kShared);
  std::vector<int32_t> offsets(kExperts + 1), row_ids(kTokens * kTopK), slots(kTokens * kTopK);
  std::vector<float> weights(kTokens * kTopK);
  NormMoeArgs a;
  a.x = model.x.mat();
  a.norm_weight = model.norm.data.data();
  a.router = &router;
  a.routing = routing;
  a.gate_proj = gates.data();
  a.up_proj = ups.data();
  a.down_proj = downs.data();
  a.shared_gate_proj = &shared_gate;
  a.shared_up_proj = &shared_up;
  a.shared_down_proj = &shared_down;
  a.normed = scratch.mat();
  a.router_logits = router_logits.mat();
  a.plan = {offsets.data(), row_ids.data(), weights.data(), slots.data()};
  a.expert_x = expert_x.mat();
  a.expert_gate = expert_gate.mat();
  a.expert_up = expert_up.mat();
  a.shared_gate = gate.mat();
  a.shared_up = up.mat();
  const Ops ops = backends::ref::make_ops();
  ExecContext ctx;
  ops.norm_moe(ops, ctx, a);
}

TEST(NormMoe, AddsTheChosenExpertsAndTheSharedOne) {
  Rng rng(3);
  for (const Routing& routing : {Routing{kExperts, kTopK, RouterScore::kSoftmaxOfTopK, false},
                                 Routing{kExperts, kTopK, RouterScore::kSoftmax, false},
                                 Routing{kExperts, kTopK, RouterScore::kSigmoid, true}}) {
    Model model(rng);
    const Matrix expected = model.expected(routing);
    run(rng, model, routing);
    expect_near(model.x, expected);
  }
}

}  // namespace
}  // namespace octavo::ops
