// Products of 17 to 64 tokens by every plan, against `ref`: ragged rows and columns, several turns,
// matrices that share an input, bias, adding, gate and up; and that a row's bits are its own.
#include "backends/cuda/few_tokens_wgmma.h"

#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/hopper.h"
#include "tests/gpu/ops_harness.h"
#include "tests/tolerance.h"

namespace octavo::backends::cuda {
namespace {

using octavo::testing::relative_error;

constexpr WgmmaPlan kPlans[] = {{1, 1}, {1, 2}, {2, 1}};

// By the plan of the call where there is none.
void multiply(const FewTokensArgs& args, const WgmmaPlan* plan, cudaStream_t stream) {
  ASSERT_TRUE(multiplies_by_wgmma(args));
  multiply_few_tokens_wgmma(args, plan != nullptr ? *plan : plan_wgmma(args), stream);
}

class FewTokensWgmma : public OpsTest {
 protected:
  void SetUp() override {
    OpsTest::SetUp();
    if (!IsSkipped() && !is_hopper()) GTEST_SKIP() << "not a Hopper";
  }
  cudaStream_t stream() const { return static_cast<CudaDevice*>(backend_.device)->stream(); }
  PaddedMat random(int64_t rows, int64_t cols, DType dtype) {
    return rounded(PaddedMat::random(rng_, rows, cols, 8), dtype);
  }

  Rng rng_{7};
  ops::ExecContext host_;
};

// Two matrices of one launch; 8,600 rows are three turns of clusters of two, which use their slots
// of sums again.
TEST_F(FewTokensWgmma, EveryPlanIsRight) {
  for (const auto& [tokens, in] :
       {std::pair<int64_t, int64_t>{17, 8}, {32, 1064}, {33, 520}, {47, 72}, {64, 2056}}) {
    const int64_t rows[] = {8600, 75};
    const PaddedMat x = random(tokens, in, DType::kBF16);
    const PaddedMat bias = random(1, rows[0], DType::kF32);
    const DeviceMat device_x(x, DType::kBF16), device_bias(bias, DType::kF32);
    std::vector<ops::Weight> weights, device;
    std::vector<PaddedMat> before, expected;
    for (const int64_t out : rows) {
      weights.push_back(testing::random_weight(rng_, DType::kBF16, out, in));
      device.push_back(packed(weights.back()));
      before.push_back(random(tokens, out, DType::kF32));
      expected.push_back(before.back());
      PaddedMat product(tokens, out);
      ref::linear(host_, {product, x, &weights.back(),
                          out == rows[0] ? bias.mat().row<float>(0) : nullptr});
      ref::add(host_, {expected.back(), product});
    }
    for (const WgmmaPlan& plan : kPlans) {
      if (plan.cluster > 1 && in <= 128) continue;  // too few steps
      const DeviceMat first(before[0], DType::kF32), second(before[1], DType::kF32);
      run([&] {
        multiply({.out = {first, second},
                  .w = {&device[0], &device[1]},
                  .bias = {static_cast<const float*>(device_bias.mat().data)},
                  .x = device_x,
                  .accumulate = true},
                 &plan, stream());
      });
      SCOPED_TRACE(::testing::Message()
                   << tokens << " x " << in << ", plan " << plan.groups << ", " << plan.cluster);
      for (const auto& [out, want] : {std::pair(&first, &expected[0]), {&second, &expected[1]}}) {
        const PaddedMat got = out->download();
        EXPECT_LE(relative_error(got, *want), testing::kGpuProduct);
        EXPECT_TRUE(got.padding_is_untouched());
      }
    }
  }
}

TEST_F(FewTokensWgmma, GateAndUp) {
  const int64_t in = 1544;
  for (const auto& [tokens, inter] :
       {std::pair<int64_t, int64_t>{17, 1003}, {40, 31}, {64, 9000}}) {
    const ops::Weight gate_proj = testing::random_weight(rng_, DType::kBF16, inter, in);
    const ops::Weight up_proj = testing::random_weight(rng_, DType::kBF16, inter, in);
    const ops::Weight device_gate = packed(gate_proj), device_up = packed(up_proj);
    const PaddedMat bias = random(1, inter, DType::kF32), x = random(tokens, in, DType::kBF16);
    const DeviceMat device_bias(bias, DType::kF32), device_x(x, DType::kBF16);
    PaddedMat gate(tokens, inter), up(tokens, inter);
    ref::linear(host_, {gate, x, &gate_proj});
    ref::linear(host_, {up, x, &up_proj, bias.mat().row<float>(0)});
    ref::activation_mul(host_, {gate, gate, up, ops::Activation::kSilu});
    for (const WgmmaPlan& plan : kPlans) {
      if (plan.cluster > 1) continue;
      const DeviceMat out(PaddedMat(tokens, inter, 8), DType::kBF16);
      run([&] {
        multiply({.out = {out},
                  .w = {&device_gate, &device_up},
                  .bias = {nullptr, static_cast<const float*>(device_bias.mat().data)},
                  .x = device_x,
                  .gated = true},
                 &plan, stream());
      });
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, plan " << plan.groups);
      const PaddedMat got = out.download();
      EXPECT_LE(relative_error(got, gate), testing::kGpuComposite);
      EXPECT_TRUE(got.padding_is_untouched());
    }
  }
}

TEST_F(FewTokensWgmma, ARowIsTheSameBitsInEveryBatch) {
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{75, 1064}, {640, 8200}}) {
    const ops::Weight w = testing::random_weight(rng_, DType::kBF16, out, in);
    const ops::Weight device_w = packed(w);
    const DeviceMat x(random(kWgmmaTokens, in, DType::kBF16), DType::kBF16);
    for (size_t p = 0; p <= std::size(kPlans); ++p) {
      const auto product = [&](int64_t first, int64_t rows) {
        const DeviceMat result(PaddedMat(rows, out), DType::kF32);
        run([&] {
          multiply({.out = {result}, .w = {&device_w}, .x = x.mat().row_range(first, rows)},
                   p < std::size(kPlans) ? &kPlans[p] : nullptr, stream());
        });
        return result.download();
      };
      const PaddedMat all = product(0, kWgmmaTokens);
      for (int64_t rows = kStreamedTokens + 1; rows < kWgmmaTokens; rows += 5) {
        for (const int64_t first : {int64_t{0}, kWgmmaTokens - rows}) {
          EXPECT_TRUE(testing::same_bits(product(first, rows), all, first))
              << first << " + " << rows << " of " << out << " x " << in << ", plan " << p;
        }
      }
    }
  }
}

TEST_F(FewTokensWgmma, RefusesWhatTmaCannotRead) {
  const ops::Weight odd = packed(testing::random_weight(rng_, DType::kBF16, 64, 60));
  const ops::Weight even = packed(testing::random_weight(rng_, DType::kBF16, 64, 64));
  const DeviceMat x(random(65, 64, DType::kBF16), DType::kBF16);
  const DeviceMat out(PaddedMat(65, 64), DType::kF32);
  const auto takes = [&](const ops::Weight& w, int64_t rows) {
    ops::Mat in = x.mat().row_range(0, rows);
    in.cols = w.cols;
    return multiplies_by_wgmma({.out = {out}, .w = {&w}, .x = in});
  };
  EXPECT_TRUE(takes(even, 17));
  EXPECT_TRUE(takes(even, 64));
  EXPECT_FALSE(takes(even, 16));
  EXPECT_FALSE(takes(even, 65));
  EXPECT_FALSE(takes(odd, 17));
}

}  // namespace
}  // namespace octavo::backends::cuda
