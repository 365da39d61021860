// The ops that depend on where a token stands, every kernel of the table against the oracle.
#include <gtest/gtest.h>

#include "kernel_test_util.h"
#include "row_op_run.h"
#include "tensor/float16.h"
#include "tolerance.h"

namespace octavo::testing {
namespace {

// The values of models-in-the-wild settings, computed by hand: floor_scale 8192, attn_scale 0.1.
TEST(PositionOps, ScaleQueriesGrowsWithThePosition) {
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

TEST(PositionOps, RopeOnLongContexts) {
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
TEST(PositionOps, RopeVariants) {
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

TEST(PositionOps, WriteKvPutsTokensInTheirSlots) {
  Rng rng(6);
  const int64_t blocks = 5;
  const int64_t block_size = 3;
  const int64_t heads = 2;
  const int64_t head_dim = 20;
  const PaddedMat k = PaddedMat::random(rng, 4, heads * head_dim);
  const PaddedMat v = PaddedMat::random(rng, 4, heads * head_dim, 1);
  const int64_t slots[] = {14, 3, 4, 0};
  for (const backends::cpu::Kernel* kernel : runnable_kernels("write_kv")) {
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
TEST(PositionOps, WriteKvRoundsToCodes) {
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
  for (const backends::cpu::Kernel* kernel : runnable_kernels("write_kv")) {
    Context context(1, num_rows, kHeadDim);
    check([&](const ops::WriteKvArgs& a) { call<ops::WriteKvArgs>(*kernel, context, a); },
          kernel->name);
  }
}

}  // namespace
}  // namespace octavo::testing
