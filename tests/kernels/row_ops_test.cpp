// The ops that work row by row, every kernel of the table against the oracle.
#include <gtest/gtest.h>

#include "kernel_test_util.h"
#include "tensor/float16.h"
#include "tolerance.h"

namespace octavo::testing {
namespace {

using backends::cpu::Kernel;

// Rows and columns: single values, odd tails, more than one thread's share.
const std::pair<int64_t, int64_t> kShapes[] = {{1, 1},  {1, 576},   {3, 7},    {17, 33},
                                               {5, 64}, {2, 20001}, {150, 576}};

// Runs every kernel of `op` with 1, 2 and 3 threads on fresh copies of `initial`, expects the bits
// of the first run from the others, and hands the result to `check`.
template <typename Args, typename MakeArgs, typename Check>
void run_all(std::string_view op, const PaddedMat& initial, const MakeArgs& make_args,
             const Check& check) {
  const auto kernels = runnable_kernels(op);
  ASSERT_FALSE(kernels.empty());
  for (const Kernel* kernel : kernels) {
    SCOPED_TRACE(kernel->name);
    std::vector<PaddedMat> results;
    for (const int threads : {1, 2, 3}) {
      const PaddedMat& out = results.emplace_back(initial);
      Context context(threads, 16, 64);
      call<Args>(*kernel, context, make_args(out));
      ASSERT_TRUE(out.padding_is_untouched());
      ASSERT_TRUE(same_bits(results.front(), out)) << threads << " threads";
    }
    check(results.front());
  }
}

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

// The values of models-in-the-wild settings, computed by hand: floor_scale 8192, attn_scale 0.1.
TEST(RowOps, ScaleQueriesGrowsWithThePosition) {
  const std::vector<int32_t> positions = {0, 8190, 8191, 16383, 131071, 1048575, 10485759};
  const double expected[] = {1, 1, 1.0693147, 1.1098612, 1.2833213, 1.4859812, 1.7155396};
  const auto rows = static_cast<int64_t>(positions.size());
  PaddedMat x(rows, 20);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < 20; ++j) x.at(i, j) = static_cast<float>(j);
  }
  const auto args = [&](const PaddedMat& out) {
    return ops::ScaleQueriesArgs{out, positions.data(), 0.1f, 8192};
  };
  const auto check = [&](const PaddedMat& out) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < 20; ++j) ASSERT_NEAR(out.at(i, j), j * expected[i], 1e-5);
    }
  };
  run_all<ops::ScaleQueriesArgs>("scale_queries", x, args, check);
  const PaddedMat by_oracle = x;
  ops::ExecContext ctx;
  backends::ref::scale_queries(ctx, args(by_oracle));
  check(by_oracle);
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

TEST(RowOps, RopeOnLongContexts) {
  Rng rng(5);
  struct Case {
    int64_t heads, head_dim, rotary_dim;
    float factor;
  };
  for (const Case& c :
       {Case{9, 64, 64, 1}, {3, 128, 128, 1.25f}, {2, 80, 32, 1}, {1, 256, 256, 1}}) {
    const std::vector<int32_t> positions = {0, 1, 2, 17, 4095, 65537, 131071, 131072};
    std::vector<float> inv_freq(c.rotary_dim / 2);
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      inv_freq[i] = std::pow(10000.0f, -2.0f * static_cast<float>(i) / c.rotary_dim);
    }
    const auto rows = static_cast<int64_t>(positions.size());
    const PaddedMat x = PaddedMat::random(rng, rows, c.heads * c.head_dim);
    const auto args = [&](const PaddedMat& out) {
      return ops::RopeArgs{out,        positions.data(), inv_freq.data(),
                           c.head_dim, c.rotary_dim,     c.factor};
    };
    const PaddedMat expected = x;
    ops::ExecContext ctx;
    backends::ref::rope(ctx, args(expected));
    run_all<ops::RopeArgs>("rope", x, args, [&](const PaddedMat& out) {
      EXPECT_LE(relative_error(out, expected), kRope) << c.head_dim;
      for (int64_t j = c.rotary_dim; j < c.head_dim; ++j) EXPECT_EQ(out.at(3, j), x.at(3, j));
    });
  }
}

// A token whose frequencies are row v of a table turns as it would by that row alone.
TEST(RowOps, RopeVariants) {
  Rng rng(8);
  const std::vector<int32_t> positions = {5, 17, 3, 4000};
  const std::vector<int32_t> variants = {2, 0, 1, 2};
  const PaddedMat inv_freq = PaddedMat::random(rng, 1, 3 * 8);
  const PaddedMat x = PaddedMat::random(rng, 4, 3 * 20);
  const float* table = inv_freq.mat().row<float>(0);
  const PaddedMat expected = x;
  ops::ExecContext ctx;
  for (int64_t t = 0; t < 4; ++t) {
    backends::ref::rope(ctx, {expected.mat().row_range(t, 1), &positions[t],
                              table + variants[t] * 8, 20, 16, 1.5f});
  }
  const auto args = [&](const PaddedMat& out) {
    return ops::RopeArgs{out, positions.data(), table, 20, 16, 1.5f, variants.data()};
  };
  const PaddedMat by_oracle = x;
  backends::ref::rope(ctx, args(by_oracle));
  EXPECT_TRUE(same_bits(by_oracle, expected));
  run_all<ops::RopeArgs>("rope", x, args, [&](const PaddedMat& out) {
    EXPECT_LE(relative_error(out, expected), kRope);
  });
}

TEST(RowOps, WriteKvPutsTokensInTheirSlots) {
  Rng rng(6);
  const int64_t blocks = 5;
  const int64_t block_size = 3;
  const int64_t heads = 2;
  const int64_t head_dim = 20;
  const PaddedMat k = PaddedMat::random(rng, 4, heads * head_dim);
  const PaddedMat v = PaddedMat::random(rng, 4, heads * head_dim, 1);
  const int64_t slots[] = {14, 3, 4, 0};
  for (const Kernel* kernel : runnable_kernels("write_kv")) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
      const int64_t row_bytes = ops::kv_row_bytes(dtype, head_dim);
      std::vector<uint8_t> caches[4];
      for (auto& cache : caches) cache.assign(blocks * heads * block_size * row_bytes, 0xFF);
      ops::PagedKv kv = {caches[0].data(), caches[1].data(), dtype, blocks, block_size, heads,
                         head_dim};
      Context context(2, 4, heads * head_dim);
      call<ops::WriteKvArgs>(*kernel, context, {kv, k, v, slots});
      kv.k = caches[2].data();
      kv.v = caches[3].data();
      backends::ref::write_kv(*context, {kv, k, v, slots});
      EXPECT_EQ(caches[0], caches[2]) << kernel->name;
      EXPECT_EQ(caches[1], caches[3]) << kernel->name;
      // One value by hand: token 1, head 1, in block 1, slot 0.
      const uint8_t* row = caches[0].data() + (1 * heads + 1) * block_size * row_bytes;
      const float value = k.at(1, head_dim + 5);
      if (dtype == DType::kF32) {
        EXPECT_EQ(reinterpret_cast<const float*>(row)[5], value);
      } else if (dtype == DType::kI8) {
        float scale;
        std::memcpy(&scale, row + head_dim, sizeof(scale));
        EXPECT_LE(std::fabs(static_cast<int8_t>(row[5]) * scale - value), scale * 0.50001f);
      } else {
        const uint16_t bits = reinterpret_cast<const uint16_t*>(row)[5];
        EXPECT_EQ(bits, dtype == DType::kF16 ? float_to_fp16(value) : float_to_bf16(value));
      }
    }
  }
}

// Rows in int8 by hand: what they become, whatever is in them.
TEST(RowOps, WriteKvRoundsToCodes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Row {
    std::vector<float> values;
    std::vector<int> codes;
    float scale;
  };
  const Row rows[] = {
      {{127, -127, 0, 63.4f, 63.6f}, {127, -127, 0, 63, 64}, 1},
      {{254, 1, 3, -1, -5}, {127, 0, 2, 0, -2}, 2},  // halves go to even codes
      {{0, 0, -0.0f, 0, 0}, {0, 0, 0, 0, 0}, 0},
      {{1e-31f, -1e-38f, 1e-45f, 0, 9e-31f}, {0, 0, 0, 0, 0}, 0},
      {{1.27e-28f, -1e-30f, 0, 0, 0}, {127, -1, 0, 0, 0}, 1e-30f},
      {{3.4e38f, -3.4e38f, 1, 0, 1.7e38f}, {127, -127, 0, 0, 64}, 3.4e38f / 127},
      {{1, kInfinity, 2, 3, 4}, {0, 0, 0, 0, 0}, kNan},
      {{1, 2, 3, 4, -kInfinity}, {0, 0, 0, 0, 0}, kNan},
      {{kNan, 2, 3, 4, 5}, {0, 0, 0, 0, 0}, kNan},
      {{1, 2, 3, 4, kNan}, {0, 0, 0, 0, 0}, kNan},
  };
  constexpr int64_t kHeadDim = 5;
  const auto num_rows = static_cast<int64_t>(std::size(rows));
  PaddedMat x(num_rows, kHeadDim);
  std::vector<int64_t> slots(num_rows);
  for (int64_t i = 0; i < num_rows; ++i) {
    slots[i] = i;
    for (int64_t d = 0; d < kHeadDim; ++d) x.at(i, d) = rows[i].values[d];
  }
  const auto check = [&](const auto& write, std::string_view who) {
    std::vector<uint8_t> k(num_rows * ops::kv_row_bytes(DType::kI8, kHeadDim), 0xFF);
    std::vector<uint8_t> v = k;
    write(ops::WriteKvArgs{
        {k.data(), v.data(), DType::kI8, 1, num_rows, 1, kHeadDim}, x, x, slots.data()});
    EXPECT_EQ(k, v);
    for (int64_t i = 0; i < num_rows; ++i) {
      SCOPED_TRACE(::testing::Message() << who << ", row " << i);
      const uint8_t* row = &k[i * ops::kv_row_bytes(DType::kI8, kHeadDim)];
      float scale;
      std::memcpy(&scale, row + kHeadDim, sizeof(scale));
      EXPECT_TRUE(std::isnan(rows[i].scale) ? std::isnan(scale) : scale == rows[i].scale) << scale;
      for (int64_t d = 0; d < kHeadDim; ++d) {
        EXPECT_EQ(static_cast<int8_t>(row[d]), rows[i].codes[d]) << d;
      }
    }
  };
  ops::ExecContext none;
  check([&](const ops::WriteKvArgs& a) { backends::ref::write_kv(none, a); }, "ref");
  for (const Kernel* kernel : runnable_kernels("write_kv")) {
    Context context(1, num_rows, kHeadDim);
    check([&](const ops::WriteKvArgs& a) { call<ops::WriteKvArgs>(*kernel, context, a); },
          kernel->name);
  }
}

}  // namespace
}  // namespace octavo::testing
