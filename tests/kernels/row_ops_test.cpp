// The ops that work row by row, every kernel of the table against the oracle.
#include <gtest/gtest.h>

#include "kernel_test_util.h"
#include "row_op_run.h"
#include "tolerance.h"

namespace octavo::testing {
namespace {

using backends::cpu::Kernel;

TEST(RowOps, RmsNorm) {
  Rng rng(1);
  for (const auto& [rows, cols] : kShapes) {
    const PaddedMat x = PaddedMat::random(rng, rows, cols, 2);
    const PaddedMat weight = PaddedMat::random(rng, 1, cols);
    PaddedMat expected(rows, cols);
    ops::ExecContext ctx;
    backends::ref::rms_norm(ctx, {expected, x, weight.mat().row<float>(0), 1e-5f});
    const auto near = [&](const PaddedMat& out) {
      EXPECT_LE(relative_error(out, expected), kRmsNorm) << rows << " x " << cols;
    };
    run_all<ops::RmsNormArgs>(
        "rms_norm", PaddedMat(rows, cols),
        [&](const PaddedMat& out) {
          return ops::RmsNormArgs{out, x, weight.mat().row<float>(0), 1e-5f};
        },
        near);
    run_all<ops::RmsNormArgs>(
        "rms_norm", x,
        [&](const PaddedMat& out) {
          return ops::RmsNormArgs{out, out, weight.mat().row<float>(0), 1e-5f};
        },
        near);
  }
}

class ActivationMul : public ::testing::TestWithParam<ops::Activation> {};

TEST_P(ActivationMul, AgreesWithTheOracle) {
  Rng rng(2);
  for (const auto& [rows, cols] : kShapes) {
    PaddedMat gate = PaddedMat::random(rng, rows, cols, 3);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j)
        gate.at(i, j) *= static_cast<float>(random_int(rng, 0, 60));
    }
    const PaddedMat up = PaddedMat::random(rng, rows, cols, 1);
    PaddedMat expected(rows, cols);
    ops::ExecContext ctx;
    backends::ref::activation_mul(ctx, {expected, gate, up, GetParam()});
    const auto near = [&](const PaddedMat& out) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          const double want = expected.at(i, j);
          // Relative, but for what is too small to matter: exp is clamped there, and the oracle
          // loses what gelu leaves of a negative value in 1 + tanh.
          const bool silu = GetParam() == ops::Activation::kSilu;
          const double allowed = std::abs(want) * (silu ? kSiluMul : kGeluTanhMul);
          EXPECT_NEAR(out.at(i, j), want, allowed + (silu ? 1e-30 : 1e-13))
              << gate.at(i, j) << " " << up.at(i, j);
        }
      }
    };
    run_all<ops::ActivationMulArgs>(
        "activation_mul", gate,
        [&](const PaddedMat& out) {
          return ops::ActivationMulArgs{out, out, up, GetParam()};
        },
        near);
  }
}

TEST_P(ActivationMul, Extremes) {
  PaddedMat gate(1, 5);
  PaddedMat up(1, 5);
  const float values[] = {-1e30f, 1e30f, -200, 200, kNan};
  for (int64_t j = 0; j < 5; ++j) {
    gate.at(0, j) = values[j];
    up.at(0, j) = 2;
  }
  run_all<ops::ActivationMulArgs>(
      "activation_mul", gate,
      [&](const PaddedMat& out) {
        return ops::ActivationMulArgs{out, out, up, GetParam()};
      },
      [](const PaddedMat& out) {
        EXPECT_NEAR(out.at(0, 0), 0, 1e-6);
        EXPECT_EQ(out.at(0, 1), 2e30f);
        EXPECT_NEAR(out.at(0, 2), 0, 1e-30);
        EXPECT_EQ(out.at(0, 3), 400);
        EXPECT_TRUE(std::isnan(out.at(0, 4)));
      });
}

INSTANTIATE_TEST_SUITE_P(All, ActivationMul,
                         ::testing::Values(ops::Activation::kSilu, ops::Activation::kGeluTanh),
                         [](const auto& row) {
                           return row.param == ops::Activation::kSilu ? "silu" : "gelu_tanh";
                         });

TEST(RowOps, Softcap) {
  Rng rng(7);
  for (const auto& [rows, cols] : kShapes) {
    for (const float cap : {0.5f, 30.0f}) {
      PaddedMat x = PaddedMat::random(rng, rows, cols, 3);
      for (int64_t j = 0; j < cols; j += 3) x.at(0, j) *= 100;
      const PaddedMat expected = x;
      ops::ExecContext ctx;
      backends::ref::softcap(ctx, {expected, cap});
      run_all<ops::SoftcapArgs>(
          "softcap", x,
          [&](const PaddedMat& out) {
            return ops::SoftcapArgs{out, cap};
          },
          [&, num_rows = rows, num_cols = cols](const PaddedMat& out) {
            for (int64_t i = 0; i < num_rows; ++i) {
              for (int64_t j = 0; j < num_cols; ++j) {
                ASSERT_NEAR(out.at(i, j), expected.at(i, j), cap * kSoftcap);
              }
            }
          });
    }
  }
}

TEST(RowOps, AddAndGatherRows) {
  Rng rng(3);
  for (const auto& [rows, cols] : kShapes) {
    const PaddedMat x = PaddedMat::random(rng, rows, cols);
    const PaddedMat y = PaddedMat::random(rng, rows, cols, 1);
    run_all<ops::AddArgs>(
        "add", y,
        [&](const PaddedMat& out) {
          return ops::AddArgs{out, x};
        },
        [&, num_rows = rows, num_cols = cols](const PaddedMat& out) {
          for (int64_t i = 0; i < num_rows; ++i) {
            for (int64_t j = 0; j < num_cols; ++j) {
              ASSERT_EQ(out.at(i, j), y.at(i, j) + x.at(i, j));
            }
          }
        });
    std::vector<int32_t> ids(rows + 3);
    for (int32_t& id : ids) id = static_cast<int32_t>(random_int(rng, 0, rows));
    run_all<ops::GatherRowsArgs>(
        "gather_rows", PaddedMat(rows + 3, cols),
        [&](const PaddedMat& out) {
          return ops::GatherRowsArgs{out, x, ids.data()};
        },
        [&, num_cols = cols](const PaddedMat& out) {
          for (size_t i = 0; i < ids.size(); ++i) {
            for (int64_t j = 0; j < num_cols; ++j) ASSERT_EQ(out.at(i, j), x.at(ids[i], j));
          }
        });
    std::vector<float> scales(ids.size());
    for (float& scale : scales) scale = random_normal(rng);
    run_all<ops::GatherRowsArgs>(
        "gather_rows", PaddedMat(rows + 3, cols),
        [&](const PaddedMat& out) {
          return ops::GatherRowsArgs{out, x, ids.data(), scales.data()};
        },
        [&, num_cols = cols](const PaddedMat& out) {
          for (size_t i = 0; i < ids.size(); ++i) {
            for (int64_t j = 0; j < num_cols; ++j) {
              ASSERT_EQ(out.at(i, j), scales[i] * x.at(ids[i], j));
            }
          }
        });
  }
}

// Values in another order and rounded to E4M3: the oracle's bits, which go through the codes.
TEST(RowOps, PrepareInput) {
  Rng rng(7);
  for (const auto& [rows, cols] : kShapes) {
    PaddedMat x = PaddedMat::random(rng, rows, cols, 2);
    x.at(0, cols / 2) = 1000;
    for (int64_t j = 0; j < cols; ++j) x.at(rows - 1, j) *= static_cast<float>(j % 2);
    std::vector<int32_t> order(cols);
    for (int32_t& from : order) from = static_cast<int32_t>(random_int(rng, 0, cols));
    using Rounding = ops::InputRounding;
    const ops::InputForm forms[] = {{order.data()},
                                    {nullptr, Rounding::kStaticE4M3, 0.003f},
                                    {nullptr, Rounding::kDynamicE4M3, 0, cols},
                                    {nullptr, Rounding::kDynamicE4M3, 0, 128},
                                    {nullptr, Rounding::kDynamicE4M3, 0.002f, 128},
                                    {order.data(), Rounding::kDynamicE4M3, 0, 7}};
    for (const ops::InputForm& form : forms) {
      PaddedMat expected(rows, cols);
      ops::ExecContext ctx;
      backends::ref::prepare_input(ctx, {expected, x, form});
      run_all<ops::PrepareInputArgs>(
          "prepare_input", PaddedMat(rows, cols),
          [&](const PaddedMat& out) {
            return ops::PrepareInputArgs{out, x, form};
          },
          [&](const PaddedMat& out) { EXPECT_TRUE(same_bits(expected, out)); });
    }
  }
}

TEST(RowOps, EmbedDecodesEveryWeightType) {
  Rng rng(4);
  constexpr int64_t kCols = 256;  // a block of the largest
  for (const Kernel* linear : runnable_kernels("linear")) {
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto dtype = static_cast<DType>(i);
      if ((linear->weights & backends::cpu::dtype_bit(dtype)) == 0) continue;
      const ops::Weight table = random_weight(rng, dtype, 20, kCols);
      const int32_t ids[] = {19, 0, 7, 7};
      PaddedMat expected(4, kCols);
      ops::ExecContext ctx;
      backends::ref::embed(ctx, {expected, &table, ids});
      run_all<ops::EmbedArgs>(
          "embed", PaddedMat(4, kCols),
          [&](const PaddedMat& out) {
            return ops::EmbedArgs{out, &table, ids};
          },
          [&](const PaddedMat& out) { EXPECT_TRUE(same_bits(out, expected)); });
      run_all<ops::EmbedArgs>(
          "embed", PaddedMat(4, kCols),
          [&](const PaddedMat& out) {
            return ops::EmbedArgs{out, &table, ids, 7.5f};
          },
          [&](const PaddedMat& out) {
            for (int64_t j = 0; j < kCols; ++j) EXPECT_EQ(out.at(2, j), 7.5f * expected.at(2, j));
          });
    }
  }
}

}  // namespace
}  // namespace octavo::testing
