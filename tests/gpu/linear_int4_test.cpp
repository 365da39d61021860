// Products with matrices of 4-bit codes of the CUDA backend against `ref`: few tokens with exact
// weights, many with weights in bfloat16; which matrices stay codes.
#include "backends/cuda/linear_int4.h"

#include <algorithm>
#include <cmath>

#include "backends/cuda/few_tokens.h"
#include "backends/cuda/few_tokens_streamed.h"
#include "ops/decode_row.h"
#include "support/int4_blocks.h"
#include "tests/gpu/ops_harness.h"
#include "tests/tolerance.h"

namespace octavo::backends::cuda {
namespace {

using testing::Int4Blocks;

class LinearInt4 : public OpsTest {
 protected:
  // A matrix for both; `rounded`: the host's with its values in bfloat16.
  struct Matrix {
    ops::Weight host, rounded, device;

    const ops::Weight& oracle(int64_t tokens) const {
      return tokens > kStreamedInt4Tokens ? rounded : host;
    }
  };

  void SetUp() override {
    OpsTest::SetUp();
    if (IsSkipped()) return;
    if (!has_hopper()) GTEST_SKIP() << "no Hopper here";
    host_memory_.resize(16 << 20);
    host_.workspace = host_memory_.data();
    host_.workspace_bytes = static_cast<int64_t>(host_memory_.size());
  }

  cudaStream_t stream() const { return static_cast<CudaDevice*>(backend_.device)->stream(); }

  Result<std::optional<ops::Weight>> pack(const ops::Weight& host) {
    const Tensor tensor{"weight", host.dtype, {host.rows, host.cols}, host.data, host.owner};
    ops::PackContext context{*backend_.device, nullptr, nullptr};
    return ops().pack_codes(ops(), context, tensor, host);
  }

  Matrix random_matrix(int64_t rows, int64_t cols, int64_t group, DType type = DType::kQ5_0) {
    Matrix m;
    m.host = Int4Blocks(rng_, type, rows, cols, group).weight(group);
    const auto packed = pack(m.host);
    EXPECT_TRUE(packed.ok() && packed->has_value());
    m.device = **packed;
    EXPECT_EQ(m.device.layout, ops::PackedLayout::kInt4Tiles);
    m.rounded = m.host;
    m.rounded.dtype = DType::kF32;
    const auto values = std::make_shared<std::vector<float>>(bf16_values(m.host));
    m.rounded.data = reinterpret_cast<const std::byte*>(values->data());
    m.rounded.owner = values;
    return m;
  }

  static std::vector<float> bf16_values(const ops::Weight& host) {
    std::vector<float> values(static_cast<size_t>(host.rows * host.cols));
    ops::decode_row_fn(host.dtype)(host.data, values.data(), host.rows * host.cols);
    for (float& value : values) value = bf16_to_float(float_to_bf16(value));
    return values;
  }

  PaddedMat random(int64_t rows, int64_t cols, DType dtype, int64_t padding = 8) {
    return rounded(PaddedMat::random(rng_, rows, cols, padding), dtype);
  }

  static void expect_near(const DeviceMat& actual, const PaddedMat& expected, double allowed) {
    const PaddedMat got = actual.download();
    double largest = 1e-30, error = 0;
    for (int64_t row = 0; row < expected.mat().rows; ++row) {
      for (int64_t i = 0; i < expected.mat().cols; ++i) {
        const double value = expected.at(row, i);
        largest = std::max(largest, std::abs(value));
        const double difference = std::abs(static_cast<double>(got.at(row, i)) - value);
        error = testing::larger(error, difference);
      }
    }
    EXPECT_LE(error, allowed * largest);
    EXPECT_TRUE(got.padding_is_untouched());
  }

  Rng rng_{3};
  const ops::Ops reference_ = ref::make_ops();
  ops::ExecContext host_;

 private:
  std::vector<std::byte> host_memory_;
};

struct Shape {
  int64_t tokens, out, groups;
};
// A piece and less, several steps, a last one that is not whole, rows that end within a half tile
// or at its end, inputs that only a cluster holds; one launch and several; bfloat16, in parts too.
constexpr Shape kShapes[] = {{1, 64, 1},    {1, 1040, 32},  {2, 52, 3},    {3, 512, 9},
                             {4, 96, 8},    {5, 8, 4},      {7, 20, 17},   {8, 32, 112},
                             {16, 48, 112}, {15, 81, 5},    {12, 16, 64},  {1, 3072, 32},
                             {9, 104, 7},   {17, 112, 2},   {33, 1024, 5}, {64, 24, 9},
                             {65, 112, 9},  {130, 4104, 3}, {70, 56, 2},   {257, 264, 64}};

TEST_F(LinearInt4, LinearAgreesWithRef) {
  for (const int64_t group : {32, 64, 128}) {
    for (const Shape& s : kShapes) {
      const int64_t in = s.groups * group;
      SCOPED_TRACE(::testing::Message()
                   << s.tokens << " x " << s.out << " x " << in << " by " << group);
      const Matrix w =
          random_matrix(s.out, in, group, s.out % 3 == 0 ? DType::kQ4_0 : DType::kQ5_0);
      const PaddedMat x = random(s.tokens, in, DType::kBF16);
      const PaddedMat bias = random(1, s.out, DType::kF32);
      const DeviceMat device_bias(bias, DType::kF32);
      PaddedMat expected(s.tokens, s.out, 8);
      reference_.linear(host_, {expected, x, &w.oracle(s.tokens), bias.mat().row<float>(0)});
      for (const DType in_type : {DType::kBF16, DType::kF32}) {
        const DeviceMat device_x(x, in_type);
        for (const DType out : {DType::kBF16, DType::kF32}) {
          const DeviceMat actual(PaddedMat(s.tokens, s.out, 8), out);
          const auto* device = static_cast<const float*>(device_bias.mat().data);
          run([&] { ops().linear(ctx(), {actual, device_x, &w.device, device}); });
          // The bias may be rounded before the result is.
          const double rounding = out == DType::kBF16 ? 2 * testing::kGpuBf16Rounding : 0;
          expect_near(actual, expected, testing::kGpuProduct + rounding);
        }
      }
    }
  }
}

// More than is bfloat16 at a time: rows of the first part, of both around its end, of the last.
TEST_F(LinearInt4, InParts) {
  const int64_t tokens = 66, out = 4744, in = 14336, rows = 40;
  static_assert(2 * out * in > kDecodedBytes);
  const Matrix w = random_matrix(out, in, 128);
  const PaddedMat x = random(tokens, in, DType::kBF16);
  const DeviceMat device_x(x, DType::kBF16);
  const DeviceMat actual(PaddedMat(tokens, out, 8), DType::kF32);
  run([&] { ops().linear(ctx(), {actual, device_x, &w.device}); });
  const PaddedMat got = actual.download();
  EXPECT_TRUE(got.padding_is_untouched());
  for (const int64_t first : {int64_t{0}, out / 2, out - rows}) {
    ops::Weight some = w.rounded;
    some.data = w.rounded.row(first);
    some.rows = rows;
    PaddedMat expected(tokens, rows);
    reference_.linear(host_, {expected, x, &some});
    double largest = 0, error = 0;
    for (int64_t token = 0; token < tokens; ++token) {
      for (int64_t i = 0; i < rows; ++i) {
        const double value = expected.at(token, i);
        largest = std::max(largest, std::abs(value));
        const double difference = std::abs(static_cast<double>(got.at(token, first + i)) - value);
        error = testing::larger(error, difference);
      }
    }
    EXPECT_LE(error, testing::kGpuProduct * largest) << "from row " << first << " on";
  }
}

TEST_F(LinearInt4, AddsToTheResidual) {
  for (const int64_t tokens : {1, 8, 16, 21, 64, 100}) {
    for (const bool with_bias : {false, true}) {
      const Matrix w = random_matrix(176, 1088, 64);
      const PaddedMat x = random(tokens, 1088, DType::kBF16);
      const PaddedMat bias = random(1, 176, DType::kF32);
      PaddedMat expected = random(tokens, 176, DType::kF32), scratch(tokens, 176, 8);
      const DeviceMat sum(expected, DType::kF32), device_x(x, DType::kBF16),
          device_bias(bias, DType::kF32), device_scratch(scratch, DType::kBF16);
      reference_.linear_residual(reference_, host_,
                                 {expected, x, &w.oracle(tokens),
                                  with_bias ? bias.mat().row<float>(0) : nullptr, scratch});
      const auto* device = static_cast<const float*>(device_bias.mat().data);
      run([&] {
        ops().linear_residual(
            ops(), ctx(), {sum, device_x, &w.device, with_bias ? device : nullptr, device_scratch});
      });
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << with_bias);
      expect_near(sum, expected, testing::kGpuProduct);
    }
  }
}

// Rows that cannot be read 16 bytes at a time, or results that cuBLASLt refuses.
TEST_F(LinearInt4, AnyStride) {
  const Matrix w = random_matrix(92, 288, 32);
  for (const int64_t tokens : {1, 5, 16, 23, 90}) {
    for (const int64_t padding : {1, 3, 4}) {
      const PaddedMat x = random(tokens, 288, DType::kBF16, padding);
      const DeviceMat device_x(x, DType::kBF16);
      const DeviceMat actual(PaddedMat(tokens, 92, padding), DType::kF32);
      PaddedMat expected(tokens, 92, padding);
      reference_.linear(host_, {expected, x, &w.host});  // always streamed
      run([&] { ops().linear(ctx(), {actual, device_x, &w.device}); });
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << padding);
      expect_near(actual, expected, testing::kGpuProduct);
    }
  }
}

// The same bits for a row, whatever the number of tokens: one order for 1 to 8, one for more.
TEST_F(LinearInt4, FewTokensAreTheSameBitsAlone) {
  for (const int64_t group : {32, 64, 128}) {
    for (const int64_t in : {9 * group, int64_t{8192} + group, int64_t{14336}}) {
      const Matrix w = random_matrix(80, in, group);
      const DeviceMat x(random(kStreamedInt4Tokens, in, DType::kBF16), DType::kBF16);
      const auto multiply = [&](int64_t first, int64_t rows) {
        const DeviceMat out(PaddedMat(rows, 80), DType::kF32);
        const FewTokensArgs args = {
            .out = {out}, .w = {&w.device}, .x = x.mat().row_range(first, rows)};
        run([&] { multiply_few_tokens(args, stream()); });
        return out.download();
      };
      for (const auto& [least, most] :
           {std::pair<int64_t, int64_t>{1, 8}, {9, kStreamedInt4Tokens}}) {
        const PaddedMat all = multiply(0, most);
        for (int64_t rows = least; rows <= most; rows += rows < 18 ? 1 : 13) {
          for (const int64_t first : {int64_t{0}, (most - rows) / 2, most - rows}) {
            EXPECT_TRUE(testing::same_bits(multiply(first, rows), all, first))
                << first << " + " << rows << " of " << most << " x " << in << " by " << group;
          }
        }
      }
    }
  }
}

TEST_F(LinearInt4, SeveralMatricesInOneLaunch) {
  for (const int64_t tokens : {1, 8, 13, 40}) {
    const int64_t in = 4736, rows[kMaxMatrices] = {3024, 12, 640};
    const PaddedMat x = random(tokens, in, DType::kBF16);
    const DeviceMat device_x(x, DType::kBF16);
    std::vector<Matrix> weights;
    std::vector<PaddedMat> expected;
    std::vector<DeviceMat> actual;
    FewTokensArgs args = {.x = device_x, .accumulate = true};
    for (const int64_t out : rows) {
      weights.push_back(random_matrix(out, in, 128));
      expected.push_back(random(tokens, out, DType::kF32));
      actual.emplace_back(expected.back(), DType::kF32);
      PaddedMat product(tokens, out);
      reference_.linear(host_, {product, x, &weights.back().host});
      ref::add(host_, {expected.back(), product});
    }
    for (size_t i = 0; i < kMaxMatrices; ++i) {
      args.w[i] = &weights[i].device;
      args.out[i] = actual[i];
    }
    run([&] { multiply_few_tokens(args, stream()); });
    for (size_t i = 0; i < kMaxMatrices; ++i) {
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, matrix " << i);
      expect_near(actual[i], expected[i], testing::kGpuProduct);
    }
  }
}

// Whole blocks, of matrices with one group size and of others.
TEST_F(LinearInt4, GatedMlp) {
  const int64_t hidden = 128, inter = 192;
  for (const int64_t tokens : {1, 3, 8, 16, 17, 64, 80}) {
    for (const bool alike : {true, false}) {
      const Matrix w[] = {random_matrix(inter, hidden, 64),
                          random_matrix(inter, hidden, alike ? 64 : 32),
                          random_matrix(hidden, inter, 64)};
      PaddedMat x = random(tokens, hidden, DType::kF32, 0);
      const PaddedMat norm = random(1, hidden, DType::kF32);
      const PaddedMat bias = random(1, inter, DType::kF32);
      const DeviceMat device_x(x, DType::kF32), device_norm(norm, DType::kF32),
          device_bias(bias, DType::kF32);
      PaddedMat scratch[] = {PaddedMat(tokens, hidden, 0), PaddedMat(tokens, inter, 8),
                             PaddedMat(tokens, inter, 8)};
      const DeviceMat device_scratch[] = {DeviceMat(scratch[0], DType::kBF16),
                                          DeviceMat(scratch[1], DType::kBF16),
                                          DeviceMat(scratch[2], DType::kBF16)};
      const auto args = [&](const ops::Mat& on, ops::Weight Matrix::*side, const void* scale,
                            const void* offset, const auto& mats) {
        ops::NormGatedMlpArgs a;
        a.x = on;
        a.norm_weight = static_cast<const float*>(scale);
        a.gate_proj = &(w[0].*side);
        a.up_proj = &(w[1].*side);
        a.down_proj = &(w[2].*side);
        a.gate_bias = static_cast<const float*>(offset);
        a.normed = mats[0];
        a.gate = mats[1];
        a.up = mats[2];
        return a;
      };
      reference_.norm_gated_mlp(reference_, host_,
                                args(x, &Matrix::host, norm.mat().data, bias.mat().data, scratch));
      run([&] {
        ops().norm_gated_mlp(ops(), ctx(),
                             args(device_x, &Matrix::device, device_norm.mat().data,
                                  device_bias.mat().data, device_scratch));
      });
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << alike);
      expect_near(device_x, x, testing::kGpuComposite);
    }
  }
}

// Parts of a matrix as the host rounds them, to the bit; what lies behind is left alone.
TEST_F(LinearInt4, DecodesToTheBitsOfTheHost) {
  for (const int64_t group : {32, 64, 128}) {
    for (const int64_t cols : {group, 9 * group}) {
      const int64_t rows = 44;
      const Matrix w = random_matrix(rows, cols, group);
      const std::vector<float> expected = bf16_values(w.host);
      for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, rows}, {16, 17}, {40, 4}}) {
        DeviceArray<uint16_t> out(static_cast<size_t>((count + 1) * cols));
        out.fill_bytes(0xFF);
        run([&] { decode_int4(out.data(), w.device, first, count, stream()); });
        const std::vector<uint16_t> got = out.download();
        for (int64_t i = 0; i < count * cols; ++i) {
          const float value = expected[static_cast<size_t>(first * cols + i)];
          ASSERT_EQ(got[static_cast<size_t>(i)], float_to_bf16(value)) << i;
        }
        for (int64_t i = 0; i < cols; ++i)
          ASSERT_EQ(got[static_cast<size_t>(count * cols + i)], 0xFFFF);
      }
    }
  }
}

TEST_F(LinearInt4, WhichMatricesStay) {
  const auto stays = [&](const ops::Weight& host) {
    const auto packed = pack(host);
    EXPECT_TRUE(packed.ok()) << packed.status().message();
    return packed.ok() && packed->has_value();
  };
  Int4Blocks blocks(rng_, DType::kQ5_0, 20, 256, 64);
  EXPECT_TRUE(stays(blocks.weight(64)));
  EXPECT_TRUE(stays(blocks.weight(32)));
  EXPECT_FALSE(stays(blocks.weight(0)));    // nobody says that they are 4 bits
  EXPECT_FALSE(stays(blocks.weight(128)));  // halves with scales of their own
  EXPECT_FALSE(stays(blocks.weight(48)));
  blocks.set(19, 0, -16);
  blocks.set(19, 1, 15);
  EXPECT_FALSE(stays(blocks.weight(64)));  // 5 bits
  ops::Weight rounded = Int4Blocks(rng_, DType::kQ4_0, 8, 64, 64).weight(64);
  EXPECT_TRUE(stays(rounded));
  rounded.input.rounding = ops::InputRounding::kDynamicE4M3;
  EXPECT_FALSE(stays(rounded));
}

// What is measured before loading is what is taken.
TEST_F(LinearInt4, SizesAreMeasured) {
  const ops::Weight host = Int4Blocks(rng_, DType::kQ4_0, 20, 4096, 128).weight(128);
  const auto none = open_cuda(Arithmetic::kAuto, Packing::kNone);
  ASSERT_TRUE(none.ok());
  const Tensor tensor{"weight", host.dtype, {host.rows, host.cols}, nullptr, nullptr};
  ops::PackContext context{*backend_.device, nullptr, nullptr};
  const auto measured = none->ops.pack_codes(none->ops, context, tensor, host);
  ASSERT_TRUE(measured.ok() && measured->has_value());
  EXPECT_EQ((*measured)->size_bytes(), 24 * 4096 * 17 / 32);  // 4.25 bits
  EXPECT_EQ((*measured)->size_bytes(), (**pack(host)).size_bytes());
}

}  // namespace
}  // namespace octavo::backends::cuda
