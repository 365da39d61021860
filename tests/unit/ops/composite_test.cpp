// The default composites, on the oracle's primitives, against formulas written out in double.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/ref/ref.h"
#include "plain_math.h"

namespace octavo::ops {
namespace {

class Composite : public ::testing::Test {
 protected:
  Rng rng{1};
  Ops ops = backends::ref::make_ops();
  ExecContext ctx;
};

TEST_F(Composite, LinearResidualAddsToItsInput) {
  Values x(rng, 3, 8);
  Values y(rng, 3, 12);
  Values w(rng, 8, 12);
  Values bias(rng, 1, 8);
  Values scratch(rng, 3, 8);
  Matrix expected = times_transposed(y.matrix(), w, bias.data.data());
  for (int64_t i = 0; i < 24; ++i) expected[i / 8][i % 8] += x.data[i];
  const Weight weight = w.weight();
  ops.linear_residual(ops, ctx, {x.mat(), y.mat(), &weight, bias.data.data(), scratch.mat()});
  expect_near(x, expected);
}

TEST_F(Composite, NormGatedMlp) {
  Values x(rng, 4, 8);
  Values norm(rng, 1, 8);
  Values gate(rng, 16, 8);
  Values up(rng, 16, 8);
  Values down(rng, 8, 16);
  Values gate_bias(rng, 1, 16);
  Values up_bias(rng, 1, 16);
  Values down_bias(rng, 1, 8);
  const Matrix h = normed(x.matrix(), norm, 1e-3);
  Matrix mixed = times_transposed(h, gate, gate_bias.data.data());
  const Matrix u = times_transposed(h, up, up_bias.data.data());
  for (size_t t = 0; t < mixed.size(); ++t) {
    for (size_t i = 0; i < 16; ++i) mixed[t][i] *= u[t][i] / (1 + std::exp(-mixed[t][i]));
  }
  Matrix expected = times_transposed(mixed, down, down_bias.data.data());
  for (int64_t i = 0; i < 32; ++i) expected[i / 8][i % 8] += x.data[i];

  Values scratch(rng, 4, 8);
  Values scratch_gate(rng, 4, 16);
  Values scratch_up(rng, 4, 16);
  const Weight g = gate.weight();
  const Weight u_w = up.weight();
  const Weight d = down.weight();
  ops.norm_gated_mlp(
      ops, ctx,
      {x.mat(), norm.data.data(), 1e-3f, &g, &u_w, &d, gate_bias.data.data(), up_bias.data.data(),
       down_bias.data.data(), scratch.mat(), scratch_gate.mat(), scratch_up.mat()});
  expect_near(x, expected);
}

TEST_F(Composite, NormLmHeadTakesTheRowsAskedFor) {
  Values x(rng, 5, 8);
  Values norm(rng, 1, 8);
  Values head(rng, 30, 8);
  Values logits(rng, 2, 30);
  Values scratch(rng, 2, 8);
  const int32_t rows[] = {4, 1};
  const Matrix all = times_transposed(normed(x.matrix(), norm, 1e-5), head, nullptr);
  const Weight w = head.weight();
  ops.norm_lm_head(ops, ctx,
                   {logits.mat(), x.mat(), rows, norm.data.data(), 1e-5f, &w, scratch.mat()});
  expect_near(logits, {all[4], all[1]});
}

// The pairs (i, i + 2) of a head of four values.
void rotate_head(double* head, int32_t position, const float* inv_freq) {
  for (size_t i = 0; i < 2; ++i) {
    const double angle = position * inv_freq[i];
    const double a = head[i];
    const double b = head[i + 2];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[i + 2] = b * std::cos(angle) + a * std::sin(angle);
  }
}

TEST_F(Composite, NormQkvRopeWrite) {
  constexpr int64_t kHeadDim = 4;
  Values x(rng, 3, 8);
  Values norm(rng, 1, 8);
  Values q_proj(rng, 8, 8);  // two heads
  Values k_proj(rng, 4, 8);  // one
  Values v_proj(rng, 4, 8);
  Values q_bias(rng, 1, 8);
  Values k_bias(rng, 1, 4);
  Values v_bias(rng, 1, 4);
  Values k_cache(rng, 10, kHeadDim);  // five blocks of two slots
  Values v_cache(rng, 10, kHeadDim);
  Values q(rng, 3, 8);
  Values scratch(rng, 3, 8);
  Values k(rng, 3, 4), v(rng, 3, 4);
  const float inv_freq[] = {1.0f, 0.25f};
  const int32_t positions[] = {5, 6, 7};
  const int64_t slots[] = {9, 2, 3};

  const Matrix h = normed(x.matrix(), norm, 1e-5);
  Matrix want_q = times_transposed(h, q_proj, q_bias.data.data());
  Matrix want_k = times_transposed(h, k_proj, k_bias.data.data());
  for (int64_t t = 0; t < 3; ++t) {
    rotate_head(&want_q[t][0], positions[t], inv_freq);
    rotate_head(&want_q[t][4], positions[t], inv_freq);
    rotate_head(&want_k[t][0], positions[t], inv_freq);
  }
  const Matrix want_v = times_transposed(h, v_proj, v_bias.data.data());
  Matrix want_k_cache = k_cache.matrix();
  Matrix want_v_cache = v_cache.matrix();
  for (int64_t t = 0; t < 3; ++t) {
    want_k_cache[slots[t]] = want_k[t];
    want_v_cache[slots[t]] = want_v[t];
  }

  const Weight qw = q_proj.weight();
  const Weight kw = k_proj.weight();
  const Weight vw = v_proj.weight();
  NormQkvRopeWriteArgs a;
  a.x = x.mat();
  a.norm_weight = norm.data.data();
  a.q_proj = &qw;
  a.k_proj = &kw;
  a.v_proj = &vw;
  a.q_bias = q_bias.data.data();
  a.k_bias = k_bias.data.data();
  a.v_bias = v_bias.data.data();
  a.inv_freq = inv_freq;
  a.rotary_dim = kHeadDim;
  a.kv = {k_cache.data.data(), v_cache.data.data(), DType::kF32, 5, 2, 1, kHeadDim};
  a.batch.positions = positions;
  a.batch.slot_mapping = slots;
  a.q = q.mat();
  a.normed = scratch.mat();
  a.k = k.mat();
  a.v = v.mat();
  ops.norm_qkv_rope_write(ops, ctx, a);
  expect_near(q, want_q);
  expect_near(k_cache, want_k_cache);
  expect_near(v_cache, want_v_cache);
}

// q and k are normalised by head or as a whole between projection and rotation; without a norm of
// the input the projections read it as it is; queries are scaled by their position.
TEST_F(Composite, QkNormsAndQueryScales) {
  constexpr int64_t kHeadDim = 4;
  for (const QkNorm kind : {QkNorm::kPerHead, QkNorm::kAllHeads}) {
    Values x(rng, 2, 8);
    Values q_proj(rng, 8, 8);  // two heads
    Values kv_proj(rng, 4, 8);
    const bool per_head = kind == QkNorm::kPerHead;
    Values q_norm(rng, 1, per_head ? kHeadDim : 8);
    Values k_norm(rng, 1, kHeadDim);
    Values k_cache(rng, 4, kHeadDim);
    Values v_cache(rng, 4, kHeadDim);
    Values q(rng, 2, 8);
    Values k(rng, 2, 4);
    Values v(rng, 2, 4);
    Values scratch(rng, 2, 8);
    const int32_t positions[] = {9, 10};
    const int64_t slots[] = {2, 3};

    Matrix want_q = times_transposed(x.matrix(), q_proj, nullptr);
    for (auto& row : want_q) {
      const Matrix heads =
          per_head ? Matrix{{row.begin(), row.begin() + 4}, {row.begin() + 4, row.end()}}
                   : Matrix{row};
      row.clear();
      for (const auto& head : normed(heads, q_norm, 1e-5)) {
        row.insert(row.end(), head.begin(), head.end());
      }
    }
    for (size_t t = 0; t < 2; ++t) {
      const double scale = 1 + 0.5 * std::log(1 + std::floor((positions[t] + 1.0) / 4));
      for (double& value : want_q[t]) value *= scale;
    }
    const Matrix want_k = normed(times_transposed(x.matrix(), kv_proj, nullptr), k_norm, 1e-5);
    Matrix want_k_cache = k_cache.matrix();
    want_k_cache[2] = want_k[0];
    want_k_cache[3] = want_k[1];

    const Weight qw = q_proj.weight();
    const Weight kvw = kv_proj.weight();
    NormQkvRopeWriteArgs a;
    a.x = x.mat();
    a.q_proj = &qw;
    a.k_proj = a.v_proj = &kvw;
    a.qk_norm = kind;
    a.q_norm_weight = q_norm.data.data();
    a.k_norm_weight = k_norm.data.data();
    a.query_attn_scale = 0.5f;
    a.query_floor_scale = 4;
    a.kv = {k_cache.data.data(), v_cache.data.data(), DType::kF32, 1, 4, 1, kHeadDim};
    a.batch.positions = positions;
    a.batch.slot_mapping = slots;
    a.q = q.mat();
    a.normed = scratch.mat();
    a.k = k.mat();
    a.v = v.mat();
    ops.norm_qkv_rope_write(ops, ctx, a);
    expect_near(q, want_q);
    expect_near(k_cache, want_k_cache);
  }
}

TEST_F(Composite, ResultsAreNormalisedBeforeTheyAreAdded) {
  Values x(rng, 3, 8);
  Values y(rng, 3, 12);
  Values w(rng, 8, 12);
  Values norm(rng, 1, 8);
  Values scratch(rng, 3, 8);
  Matrix expected = normed(times_transposed(y.matrix(), w, nullptr), norm, 1e-5);
  for (int64_t i = 0; i < 24; ++i) expected[i / 8][i % 8] += x.data[i];
  const Weight weight = w.weight();
  ops.linear_residual(ops, ctx,
                      {x.mat(), y.mat(), &weight, nullptr, scratch.mat(), norm.data.data(), 1e-5f});
  expect_near(x, expected);
}

double gelu_tanh(double z) {
  return 0.5 * z * (1 + std::tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
}

TEST_F(Composite, GatedMlpWithoutInputNormAndWithGelu) {
  Values x(rng, 4, 8);
  Values gate(rng, 16, 8);
  Values up(rng, 16, 8);
  Values down(rng, 8, 16);
  Values norm(rng, 1, 8);
  Matrix mixed = times_transposed(x.matrix(), gate, nullptr);
  const Matrix u = times_transposed(x.matrix(), up, nullptr);
  for (size_t t = 0; t < mixed.size(); ++t) {
    for (size_t i = 0; i < 16; ++i) mixed[t][i] = gelu_tanh(mixed[t][i]) * u[t][i];
  }
  Matrix expected = normed(times_transposed(mixed, down, nullptr), norm, 1e-5);
  for (int64_t i = 0; i < 32; ++i) expected[i / 8][i % 8] += x.data[i];

  Values scratch(rng, 4, 8);
  Values scratch_gate(rng, 4, 16);
  Values scratch_up(rng, 4, 16);
  const Weight g = gate.weight();
  const Weight u_w = up.weight();
  const Weight d = down.weight();
  NormGatedMlpArgs a;
  a.x = x.mat();
  a.gate_proj = &g;
  a.up_proj = &u_w;
  a.down_proj = &d;
  a.normed = scratch.mat();
  a.gate = scratch_gate.mat();
  a.up = scratch_up.mat();
  a.activation = Activation::kGeluTanh;
  a.post_norm_weight = norm.data.data();
  ops.norm_gated_mlp(ops, ctx, a);
  expect_near(x, expected);
}

TEST_F(Composite, LogitsAreCapped) {
  Values x(rng, 2, 8);
  Values norm(rng, 1, 8);
  Values head(rng, 30, 8);
  Values logits(rng, 2, 30);
  Values scratch(rng, 2, 8);
  const int32_t rows[] = {0, 1};
  Matrix expected = times_transposed(normed(x.matrix(), norm, 1e-5), head, nullptr);
  for (auto& row : expected) {
    for (double& value : row) value = 0.5 * std::tanh(value / 0.5);
  }
  const Weight w = head.weight();
  ops.norm_lm_head(ops, ctx,
                   {logits.mat(), x.mat(), rows, norm.data.data(), 1e-5f, &w, scratch.mat(), 0.5f});
  expect_near(logits, expected);
}

}  // namespace
}  // namespace octavo::ops
