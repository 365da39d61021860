// Products of the CUDA backend and what stands around them, against `ref`: few tokens and many,
// shapes that cuBLASLt takes and others, every weight type.
#include "backends/cuda/few_tokens.h"
#include "backends/cuda/few_tokens_streamed.h"
#include "ops/decode_row.h"
#include "tests/gpu/ops_harness.h"
#include "tests/tolerance.h"

namespace octavo::backends::cuda {
namespace {

using octavo::testing::random_int;
using octavo::testing::relative_error;

struct Shape {
  int64_t tokens, out, in;
};
// All kernels and cuBLASLt; rows that are no multiples of 8 or 16; a last step of 8 columns; inputs
// that only a cluster can hold.
constexpr Shape kShapes[] = {{1, 64, 64},    {1, 1027, 4096}, {2, 33, 40},     {3, 512, 2056},
                             {4, 96, 8},     {5, 256, 512},   {7, 40, 1048},   {17, 101, 64},
                             {33, 1024, 96}, {3, 17, 37},     {9, 8, 13},      {130, 64, 4096},
                             {8, 24, 14336}, {16, 33, 14336}, {32, 18, 14344}, {15, 75, 520},
                             {14, 16, 3080}, {64, 48, 512},   {16, 1, 8200},   {12, 7, 24}};

class LinearOps : public OpsTest {
 protected:
  cudaStream_t stream() const { return static_cast<CudaDevice*>(backend_.device)->stream(); }
  PaddedMat random(int64_t rows, int64_t cols, DType dtype, int64_t padding = 8) {
    return rounded(PaddedMat::random(rng_, rows, cols, padding), dtype);
  }
  void expect_near(const DeviceMat& actual, const PaddedMat& expected, double allowed) {
    const PaddedMat got = actual.download();
    EXPECT_LE(relative_error(got, expected), allowed)
        << expected.mat().rows << " x " << expected.mat().cols;
    EXPECT_TRUE(got.padding_is_untouched());
  }

  Rng rng_{2};
  ops::ExecContext host_;
};

TEST_F(LinearOps, LinearAndResidual) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(::testing::Message() << s.tokens << " x " << s.out << " x " << s.in);
    const ops::Weight w = testing::random_weight(rng_, DType::kBF16, s.out, s.in);
    const ops::Weight device_w = packed(w);
    const PaddedMat bias = random(1, s.out, DType::kF32);
    const DeviceMat device_bias(bias, DType::kF32);
    for (const DType in : {DType::kBF16, DType::kF32}) {
      // What is float32 is rounded on the way.
      const PaddedMat x = random(s.tokens, s.in, DType::kBF16);
      const DeviceMat device_x(x, in);
      for (const DType out : {DType::kBF16, DType::kF32}) {
        for (const bool with_bias : {false, true}) {
          // A bias may be rounded before the result is.
          const double allowed = testing::kGpuProduct + (out == DType::kBF16 ? 1 + with_bias : 0) *
                                                            testing::kGpuBf16Rounding;
          PaddedMat expected(s.tokens, s.out, 8);
          ref::linear(host_, {expected, x, &w, with_bias ? bias.mat().row<float>(0) : nullptr});
          const DeviceMat actual(PaddedMat(s.tokens, s.out, 8), out);
          const auto* device = static_cast<const float*>(device_bias.mat().data);
          run([&] {
            ops().linear(ctx(), {actual, device_x, &device_w, with_bias ? device : nullptr});
          });
          expect_near(actual, expected, allowed);
        }
      }
      PaddedMat expected = random(s.tokens, s.out, DType::kF32);
      const DeviceMat sum(expected, DType::kF32);
      const DeviceMat scratch(PaddedMat(s.tokens, s.out, 8), DType::kBF16);
      PaddedMat host_scratch(s.tokens, s.out, 8);
      const ops::Ops reference = ref::make_ops();
      reference.linear_residual(reference, host_, {expected, x, &w, nullptr, host_scratch});
      run([&] {
        ops().linear_residual(ops(), ctx(), {sum, device_x, &device_w, nullptr, scratch});
      });
      expect_near(sum, expected, testing::kGpuProduct);
    }
  }
}

// The same bits for a row, whatever the number of tokens, within the numbers that few_tokens.h
// takes together.
TEST_F(LinearOps, FewTokensAreTheSameBitsAlone) {
  using Range = std::pair<int64_t, int64_t>;
  const auto expect_same = [&](int64_t in, bool portable, const std::vector<Range>& ranges) {
    const ops::Weight w = testing::random_weight(rng_, DType::kBF16, 75, in);
    const ops::Weight device_w = packed(w);
    const DeviceMat x(random(kStreamedTokens, in, DType::kBF16), DType::kBF16);
    const auto multiply = [&](int64_t first, int64_t rows) {
      const DeviceMat out(PaddedMat(rows, 75), DType::kF32);
      run([&] {
        multiply_few_tokens({.out = {out},
                             .w = {&device_w},
                             .x = x.mat().row_range(first, rows),
                             .portable = portable},
                            stream());
      });
      return out.download();
    };
    for (const auto& [least, most] : ranges) {
      const PaddedMat all = multiply(0, most);
      for (int64_t rows = least; rows <= most; ++rows) {
        for (const int64_t first : {int64_t{0}, (most - rows) / 2, most - rows}) {
          EXPECT_TRUE(testing::same_bits(multiply(first, rows), all, first))
              << first << " + " << rows << " of " << most << " x " << in << ", " << portable;
        }
      }
    }
  };
  for (const int64_t in : {1064, 8200}) {
    expect_same(in, false, {{1, 8}, {9, 16}});
    expect_same(in, true, {{1, 11}});
  }
}

// Many tiles for each cluster, three matrices, added to what is there.
TEST_F(LinearOps, SeveralMatricesInOneLaunch) {
  for (const auto& [tokens, portable] : {std::pair<int64_t, bool>{1, false},
                                         {8, false},
                                         {13, false},
                                         {16, false},
                                         {21, false},
                                         {1, true},
                                         {6, true}}) {
    const int64_t in = 4616, rows[kMaxMatrices] = {3011, 5, 640};
    const PaddedMat x = random(tokens, in, DType::kBF16);
    const DeviceMat device_x(x, DType::kBF16);
    std::vector<ops::Weight> weights, device;
    std::vector<PaddedMat> expected;
    std::vector<DeviceMat> actual;
    for (const int64_t out : rows) {
      weights.push_back(testing::random_weight(rng_, DType::kBF16, out, in));
      device.push_back(packed(weights.back()));
      expected.push_back(random(tokens, out, DType::kF32));
      actual.emplace_back(expected.back(), DType::kF32);
    }
    FewTokensArgs args = {.x = device_x, .accumulate = true, .portable = portable};
    for (size_t i = 0; i < kMaxMatrices; ++i) {
      args.w[i] = &device[i];
      args.out[i] = actual[i];
      PaddedMat product(tokens, rows[i]);
      ref::linear(host_, {product, x, &weights[i]});
      ref::add(host_, {expected[i], product});
    }
    run([&] { multiply_few_tokens(args, stream()); });
    for (size_t i = 0; i < kMaxMatrices; ++i) {
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, matrix " << i << ", " << portable);
      expect_near(actual[i], expected[i], testing::kGpuProduct);
    }
  }
}

TEST_F(LinearOps, GateAndUpInOneLaunch) {
  const int64_t in = 1544, inter = 1003;
  const ops::Weight gate_proj = testing::random_weight(rng_, DType::kBF16, inter, in);
  const ops::Weight up_proj = testing::random_weight(rng_, DType::kBF16, inter, in);
  const ops::Weight device_gate = packed(gate_proj), device_up = packed(up_proj);
  const PaddedMat bias = random(1, inter, DType::kF32);
  const DeviceMat device_bias(bias, DType::kF32);
  for (const int64_t tokens : {1, 2, 4, 8, 11, 16}) {
    const PaddedMat x = random(tokens, in, DType::kBF16);
    const DeviceMat device_x(x, DType::kBF16);
    PaddedMat gate(tokens, inter), up(tokens, inter);
    ref::linear(host_, {gate, x, &gate_proj});
    ref::linear(host_, {up, x, &up_proj, bias.mat().row<float>(0)});
    ref::activation_mul(host_, {gate, gate, up, ops::Activation::kSilu});
    for (const bool portable : {false, true}) {
      const DeviceMat out(PaddedMat(tokens, inter, 8), DType::kBF16);
      run([&] {
        multiply_few_tokens({.out = {out},
                             .w = {&device_gate, &device_up},
                             .bias = {nullptr, static_cast<const float*>(device_bias.mat().data)},
                             .x = device_x,
                             .gated = true,
                             .portable = portable},
                            stream());
      });
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << portable);
      const PaddedMat got = out.download();
      EXPECT_LE(relative_error(got, gate), testing::kGpuComposite);
      EXPECT_TRUE(got.padding_is_untouched());
    }
  }
}

TEST_F(LinearOps, GatedMlp) {
  for (const int64_t tokens : {1, 3, 4, 9, 16, 17}) {
    for (const auto activation : {ops::Activation::kSilu, ops::Activation::kGeluTanh}) {
      for (const bool post_norm : {false, true}) {
        const int64_t hidden = 72, inter = 104;
        ops::Weight weights[3], device[3];
        const std::pair<int64_t, int64_t> shapes[] = {
            {inter, hidden}, {inter, hidden}, {hidden, inter}};
        for (int i = 0; i < 3; ++i) {
          weights[i] =
              testing::random_weight(rng_, DType::kBF16, shapes[i].first, shapes[i].second);
          device[i] = packed(weights[i]);
        }
        PaddedMat x = random(tokens, hidden, DType::kF32, 0);
        const PaddedMat norm = random(1, hidden, DType::kF32);
        const PaddedMat bias = random(1, inter, DType::kF32);
        const DeviceMat device_x(x, DType::kF32), device_norm(norm, DType::kF32),
            device_bias(bias, DType::kF32);
        const auto args = [&](const ops::Mat& on, const ops::Weight* w, const void* scale,
                              const void* offset, const ops::Mat& normed, const ops::Mat& gate,
                              const ops::Mat& up) {
          ops::NormGatedMlpArgs a;
          a.x = on;
          a.norm_weight = static_cast<const float*>(scale);
          a.gate_proj = &w[0];
          a.up_proj = &w[1];
          a.down_proj = &w[2];
          a.gate_bias = static_cast<const float*>(offset);
          a.normed = normed;
          a.gate = gate;
          a.up = up;
          a.activation = activation;
          a.post_norm_weight = post_norm ? a.norm_weight : nullptr;
          return a;
        };
        PaddedMat scratch[] = {PaddedMat(tokens, hidden, 0), PaddedMat(tokens, inter, 8),
                               PaddedMat(tokens, inter, 8)};
        const DeviceMat device_scratch[] = {DeviceMat(scratch[0], DType::kBF16),
                                            DeviceMat(scratch[1], DType::kBF16),
                                            DeviceMat(scratch[2], DType::kBF16)};
        const ops::Ops reference = ref::make_ops();
        reference.norm_gated_mlp(
            reference, host_,
            args(x, weights, norm.mat().data, bias.mat().data, scratch[0], scratch[1], scratch[2]));
        run([&] {
          ops().norm_gated_mlp(
              ops(), ctx(),
              args(device_x, device, device_norm.mat().data, device_bias.mat().data,
                   device_scratch[0], device_scratch[1], device_scratch[2]));
        });
        expect_near(device_x, x, testing::kGpuComposite);
      }
    }
  }
}

TEST_F(LinearOps, LmHeadTakesTheRowsThatAreAskedFor) {
  const ops::Weight w = testing::random_weight(rng_, DType::kBF16, 203, 64);
  const ops::Weight device_w = packed(w);
  const PaddedMat x = random(9, 64, DType::kF32);
  const PaddedMat norm = random(1, 64, DType::kF32);
  const std::vector<int32_t> rows = {8, 0, 3, 3, 5, 1};
  const DeviceArray<int32_t> device_rows(rows);
  PaddedMat expected(6, 203), scratch(6, 64);
  const ops::Ops reference = ref::make_ops();
  reference.norm_lm_head(
      reference, host_,
      {expected, x, rows.data(), norm.mat().row<float>(0), 1e-5f, &w, scratch, 5.0f});
  const DeviceMat device_x(x, DType::kF32), device_norm(norm, DType::kF32);
  const DeviceMat actual(PaddedMat(6, 203), DType::kF32);
  const DeviceMat device_scratch(PaddedMat(6, 64, 8), DType::kBF16);
  run([&] {
    ops().norm_lm_head(
        ops(), ctx(),
        {actual, device_x, device_rows.data(), static_cast<const float*>(device_norm.mat().data),
         1e-5f, &device_w, device_scratch, 5.0f});
  });
  expect_near(actual, expected, testing::kGpuComposite);
}

// Every type becomes what its decoder says, rounded once.
TEST_F(LinearOps, PacksEveryType) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const ops::DecodeRowFn decode = ops::decode_row_fn(dtype);
    if (decode == nullptr) continue;
    const int64_t cols = 3 * std::max(8, dtype_traits(dtype).block_size), rows = 7;
    const ops::Weight w = testing::random_weight(rng_, dtype, rows, cols);
    const ops::Weight device_w = packed(w);
    ASSERT_EQ(device_w.dtype, DType::kBF16);
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r) decode(w.row(r), values.data() + r * cols, cols);
    std::vector<uint16_t> expected, actual(values.size());
    for (const float value : values) expected.push_back(float_to_bf16(value));
    run([&] {
      backend_.device->copy_to_host(actual.data(), device_w.data,
                                    static_cast<int64_t>(2 * actual.size()));
    });
    EXPECT_EQ(actual, expected) << dtype_traits(dtype).name;
  }
  const Tensor vector{"v", DType::kF32, {8}, nullptr, nullptr};
  ops::PackContext context{*backend_.device, nullptr, nullptr};
  const auto refused = ops().pack_weight(ops(), context, vector, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("'v'"), std::string::npos);
}

TEST_F(LinearOps, RoutesLikeRef) {
  for (const auto score :
       {ops::RouterScore::kSoftmax, ops::RouterScore::kSoftmaxOfTopK, ops::RouterScore::kSigmoid}) {
    for (const auto& [tokens, experts, top_k] :
         {std::tuple{1, 8, 2}, {7, 3, 3}, {65, 40, 6}, {5, 128, 8}, {3, 5, 1}}) {
      PaddedMat logits = random(tokens, experts, DType::kF32, 3);
      logits.at(0, experts - 1) = logits.at(0, 0);  // equal: the first wins
      const ops::Routing routing{experts, top_k, score, false};
      const auto slots = static_cast<size_t>(tokens * top_k);
      std::vector<int32_t> offsets(static_cast<size_t>(experts + 1)), ids(slots), places(slots);
      std::vector<float> weights(slots);
      ref::route(host_,
                 {{offsets.data(), ids.data(), weights.data(), places.data()}, logits, routing});
      const DeviceArray<int32_t> d_offsets(offsets.size()), d_ids(slots), d_places(slots);
      const DeviceArray<float> d_weights(slots);
      const DeviceMat device_logits(logits, DType::kF32);
      const ops::ExpertPlan plan{d_offsets.data(), d_ids.data(), d_weights.data(), d_places.data()};
      run([&] { ops().route(ctx(), {plan, device_logits, routing}); });
      EXPECT_EQ(d_offsets.download(), offsets);
      EXPECT_EQ(d_ids.download(), ids);
      EXPECT_EQ(d_places.download(), places);
      const std::vector<float> got = d_weights.download();
      for (size_t i = 0; i < slots; ++i) EXPECT_NEAR(got[i], weights[i], 1e-6);

      const PaddedMat y = random(static_cast<int64_t>(slots), 36, DType::kBF16);
      PaddedMat sums = random(tokens, 36, DType::kF32);
      const DeviceMat device_y(y, DType::kBF16), device_sums(sums, DType::kF32);
      const ops::ExpertPlan host_plan{offsets.data(), ids.data(), weights.data(), places.data()};
      ref::combine_experts(host_, {sums, y, host_plan, top_k, true});
      run([&] { ops().combine_experts(ctx(), {device_sums, device_y, plan, top_k, true}); });
      expect_near(device_sums, sums, testing::kGpuRmsNorm);
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
