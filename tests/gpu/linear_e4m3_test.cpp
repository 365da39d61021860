// Products with E4M3 matrices of the CUDA backend against `ref`: few tokens, of which
// a single one is rounded in the product, and many; inputs as codes; which matrices stay E4M3.
#include <algorithm>
#include <cmath>

#include "backends/cuda/few_tokens.h"
#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/input_e4m3.h"
#include "tensor/float8.h"
#include "tests/gpu/ops_harness.h"
#include "tests/tolerance.h"

namespace octavo::backends::cuda {
namespace {

using ops::InputForm;
using ops::InputRounding;

InputForm dynamic_form(int64_t cols, float limit = 0) {
  return {.rounding = InputRounding::kDynamicE4M3, .scale = limit, .group = cols};
}
InputForm static_form(float scale) {
  return {.rounding = InputRounding::kStaticE4M3, .scale = scale};
}

double relative_rms(const PaddedMat& actual, const PaddedMat& expected) {
  double error = 0, square = 0;
  for (int64_t row = 0; row < expected.mat().rows; ++row) {
    for (int64_t i = 0; i < expected.mat().cols; ++i) {
      error += std::pow(static_cast<double>(actual.at(row, i)) - expected.at(row, i), 2);
      square += std::pow(static_cast<double>(expected.at(row, i)), 2);
    }
  }
  return std::sqrt(error / square);
}

class LinearE4M3 : public OpsTest {
 protected:
  // A matrix for both: the host's has host scales.
  struct Matrix {
    ops::Weight host, device;
    std::vector<float> scales;
    DeviceArray<float> device_scales;
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

  Matrix random_matrix(int64_t rows, int64_t cols, const InputForm& form) {
    Matrix m;
    const auto codes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows * cols));
    uint64_t bits = 0;
    for (size_t i = 0; i < codes->size(); ++i) {
      bits = i % 8 == 0 ? rng_.next_u64() : bits >> 8;
      (*codes)[i] = static_cast<std::byte>(bits & 0xBF);  // magnitudes below 2
    }
    m.host = {ops::PackedLayout::kRowMajor, DType::kF8E4M3, rows, cols, codes->data(), codes};
    for (int64_t i = 0; i < rows; ++i) {
      m.scales.push_back(0.02f + 0.001f * std::abs(testing::random_normal(rng_)));
    }
    m.host.scale_block = cols;
    m.host.input = form;
    const auto packed = pack(m.host);
    EXPECT_TRUE(packed.ok() && packed->has_value());
    m.device = **packed;
    EXPECT_EQ(m.device.dtype, DType::kF8E4M3);
    EXPECT_TRUE(m.device.input.as_it_is());
    m.device_scales = DeviceArray<float>(m.scales);
    m.device.scales = m.device_scales.data();
    m.device.scale_block = cols;
    m.host.scales = m.scales.data();
    return m;
  }

  PaddedMat random(int64_t rows, int64_t cols, DType dtype, int64_t padding = 8) {
    return rounded(PaddedMat::random(rng_, rows, cols, padding), dtype);
  }

  // Rows of which one is zero and one far larger than the others.
  PaddedMat random_input(int64_t rows, int64_t cols, int64_t padding = 8) {
    PaddedMat x = random(rows, cols, DType::kBF16, padding);
    for (int64_t i = 0; i < cols; ++i) {
      if (rows > 2) x.at(1, i) = 0;
      if (rows > 3) x.at(2, i) *= 4096;
    }
    return x;
  }

  static float scale_of(const PaddedMat& x, int64_t row, const InputForm& form) {
    if (form.rounding == InputRounding::kStaticE4M3) return form.scale;
    float largest = 0;
    for (int64_t i = 0; i < x.mat().cols; ++i) largest = std::max(largest, std::abs(x.at(row, i)));
    const float scale = largest == 0 ? 1 : largest / kE4M3Max;
    return form.scale > 0 ? std::min(scale, form.scale) : scale;
  }

  // Of a product in float32 with so many tokens.
  static double allowed(int64_t tokens) {
    return tokens > kStreamedTokens ? testing::kGpuE4M3Product : testing::kGpuProduct;
  }

  void expect_near(const DeviceMat& actual, const PaddedMat& expected, double allowed) {
    const PaddedMat got = actual.download();
    // Row by row: one is far larger than the others.
    for (int64_t row = 0; row < expected.mat().rows; ++row) {
      double largest = 1e-30, error = 0;
      for (int64_t i = 0; i < expected.mat().cols; ++i) {
        const double value = expected.at(row, i);
        largest = std::max(largest, std::abs(value));
        const double difference = std::abs(static_cast<double>(got.at(row, i)) - value);
        error = testing::larger(error, difference);
      }
      EXPECT_LE(error, allowed * largest) << "row " << row << " of " << expected.mat().rows;
    }
    EXPECT_TRUE(got.padding_is_untouched());
  }

  Rng rng_{3};
  const ops::Ops reference_ = ref::make_ops();
  ops::ExecContext host_;

 private:
  std::vector<std::byte> host_memory_;
};

struct Shape {
  int64_t tokens, out, in;
};
// A step and less, several, a last one of 16 columns, inputs that only a cluster holds, tiles that
// only a cluster divides; both token blocks; cuBLASLt; rows of more than it is given at a time.
constexpr Shape kShapes[] = {{1, 64, 64},      {1, 1040, 4096},  {2, 48, 16},     {3, 512, 2064},
                             {4, 96, 1024},    {5, 256, 512},    {7, 48, 1040},   {17, 112, 64},
                             {33, 1024, 96},   {8, 32, 14336},   {16, 48, 14336}, {32, 16, 14352},
                             {15, 80, 528},    {12, 16, 28672},  {1, 3072, 4096}, {130, 64, 4096},
                             {2, 4096, 14336}, {11, 2048, 8192}, {19, 16, 16}};

TEST_F(LinearE4M3, LinearAgreesWithRef) {
  for (const Shape& s : kShapes) {
    for (const InputForm& form : {dynamic_form(s.in), dynamic_form(s.in, 0.004f),
                                  static_form(0.0125f), static_form(1e-5f)}) {
      SCOPED_TRACE(::testing::Message()
                   << s.tokens << " x " << s.out << " x " << s.in << ", scale " << form.scale);
      const Matrix w = random_matrix(s.out, s.in, form);
      const PaddedMat x = random_input(s.tokens, s.in);
      const PaddedMat bias = random(1, s.out, DType::kF32);
      const DeviceMat device_bias(bias, DType::kF32);
      PaddedMat expected(s.tokens, s.out, 8);
      reference_.linear(host_, {expected, x, &w.host, bias.mat().row<float>(0)});
      for (const DType in : {DType::kBF16, DType::kF32}) {
        const DeviceMat device_x(x, in);
        for (const DType out : {DType::kBF16, DType::kF32}) {
          const DeviceMat actual(PaddedMat(s.tokens, s.out, 8), out);
          const auto* device = static_cast<const float*>(device_bias.mat().data);
          run([&] { ops().linear(ctx(), {actual, device_x, &w.device, device}); });
          // The bias may be rounded before the result is.
          const double rounding = out == DType::kBF16 ? 2 * testing::kGpuBf16Rounding : 0;
          expect_near(actual, expected, allowed(s.tokens) + rounding);
        }
      }
    }
  }
}

TEST_F(LinearE4M3, AddsToTheResidual) {
  for (const int64_t tokens : {1, 8, 16, 21, 64}) {
    for (const bool with_bias : {false, true}) {
      const Matrix w = random_matrix(176, 1072, dynamic_form(1072));
      const PaddedMat x = random_input(tokens, 1072);
      const PaddedMat bias = random(1, 176, DType::kF32);
      PaddedMat expected = random(tokens, 176, DType::kF32), scratch(tokens, 176, 8);
      const DeviceMat sum(expected, DType::kF32), device_x(x, DType::kBF16),
          device_bias(bias, DType::kF32), device_scratch(scratch, DType::kBF16);
      reference_.linear_residual(
          reference_, host_,
          {expected, x, &w.host, with_bias ? bias.mat().row<float>(0) : nullptr, scratch});
      const auto* device = static_cast<const float*>(device_bias.mat().data);
      run([&] {
        ops().linear_residual(
            ops(), ctx(), {sum, device_x, &w.device, with_bias ? device : nullptr, device_scratch});
      });
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << with_bias);
      expect_near(sum, expected, allowed(tokens));
    }
  }
}

// Rows that cannot be read 16 bytes at a time, or results that cuBLASLt refuses.
TEST_F(LinearE4M3, AnyStride) {
  const Matrix w = random_matrix(96, 272, dynamic_form(272));
  for (const int64_t tokens : {1, 5, 16, 23}) {
    for (const int64_t padding : {1, 3, 4}) {
      const PaddedMat x = random_input(tokens, 272, padding);
      PaddedMat expected(tokens, 96, padding);
      reference_.linear(host_, {expected, x, &w.host});
      const DeviceMat device_x(x, DType::kBF16);
      const DeviceMat actual(PaddedMat(tokens, 96, padding), DType::kF32);
      run([&] { ops().linear(ctx(), {actual, device_x, &w.device}); });
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << padding);
      expect_near(actual, expected, allowed(tokens));
    }
  }
}

// The same bits for a row, whatever the number of tokens, within those of a token block, and
// whoever rounds the input.
TEST_F(LinearE4M3, FewTokensAreTheSameBitsAlone) {
  for (const int64_t in : {1072, 8208, 14336}) {
    const Matrix w = random_matrix(80, in, dynamic_form(in));
    const DeviceMat x(random_input(kStreamedTokens, in), DType::kBF16);
    const auto multiply = [&](int64_t first, int64_t rows, bool itself = false) {
      const DeviceMat out(PaddedMat(rows, 80), DType::kF32);
      FewTokensArgs args = {.out = {out}, .w = {&w.device}, .x = x.mat().row_range(first, rows)};
      run([&] {
        if (!itself) {
          args.rounded = e4m3_rows(ctx(), 0, rows, in);
          round_input(ctx(), args.rounded, args.x, w.device.input);
        }
        multiply_few_tokens(args, stream());
      });
      return out.download();
    };
    for (const auto& [least, most] : {std::pair<int64_t, int64_t>{1, 8}, {9, 16}}) {
      const PaddedMat all = multiply(0, most);
      for (int64_t row = 0; least == 1 && row < most; ++row) {
        EXPECT_TRUE(testing::same_bits(multiply(row, 1, true), all, row)) << row << " x " << in;
      }
      for (int64_t rows = least; rows <= most; ++rows) {
        for (const int64_t first : {int64_t{0}, (most - rows) / 2, most - rows}) {
          EXPECT_TRUE(testing::same_bits(multiply(first, rows), all, first))
              << first << " + " << rows << " of " << most << " x " << in;
        }
      }
    }
  }
}

TEST_F(LinearE4M3, SeveralMatricesInOneLaunch) {
  for (const int64_t tokens : {1, 8, 13}) {
    const int64_t in = 4624, rows[kMaxMatrices] = {3024, 16, 640};
    const PaddedMat x = random_input(tokens, in);
    const DeviceMat device_x(x, DType::kBF16);
    std::vector<Matrix> weights;
    std::vector<PaddedMat> expected;
    std::vector<DeviceMat> actual;
    FewTokensArgs args = {.x = device_x, .accumulate = true};
    for (const int64_t out : rows) {
      weights.push_back(random_matrix(out, in, dynamic_form(in)));
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
    run([&] {
      args.rounded = e4m3_rows(ctx(), 0, tokens, in);
      round_input(ctx(), args.rounded, args.x, weights[0].device.input);
      multiply_few_tokens(args, stream());
    });
    for (size_t i = 0; i < kMaxMatrices; ++i) {
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, matrix " << i);
      expect_near(actual[i], expected[i], testing::kGpuProduct);
    }
  }
}

// Whole blocks, of matrices that share an input's form and of others.
TEST_F(LinearE4M3, GatedMlp) {
  const int64_t hidden = 96, inter = 208;
  for (const int64_t tokens : {1, 3, 8, 16, 17, 40}) {
    for (const bool alike : {true, false}) {
      for (const bool post_norm : {false, true}) {
        const Matrix w[] = {
            random_matrix(inter, hidden, dynamic_form(hidden)),
            random_matrix(inter, hidden, alike ? dynamic_form(hidden) : static_form(0.01f)),
            random_matrix(hidden, inter, dynamic_form(inter))};
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
          a.post_norm_weight = post_norm ? a.norm_weight : nullptr;
          return a;
        };
        reference_.norm_gated_mlp(
            reference_, host_, args(x, &Matrix::host, norm.mat().data, bias.mat().data, scratch));
        run([&] {
          ops().norm_gated_mlp(ops(), ctx(),
                               args(device_x, &Matrix::device, device_norm.mat().data,
                                    device_bias.mat().data, device_scratch));
        });
        SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << alike << post_norm);
        EXPECT_LE(relative_rms(device_x.download(), x), testing::kGpuE4M3Composite);
      }
    }
  }
}

// Codes and scales are those of float8.h and of a division, bit for bit.
TEST_F(LinearE4M3, InputsAsCodes) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 16}, {5, 1040}, {3, 14336}}) {
    for (const InputForm& form : {dynamic_form(cols), dynamic_form(cols, 0.004f),
                                  static_form(0.0173f), static_form(1e-6f)}) {
      const PaddedMat x = random_input(rows, cols, 8), up = random(rows, cols, DType::kBF16, 4);
      const DeviceMat device_x(x, DType::kBF16), device_up(up, DType::kBF16);
      for (const bool gated : {false, true}) {
        PaddedMat values = x;
        if (gated) {
          ref::activation_mul(host_, {values, x, up, ops::Activation::kGeluTanh});
        }
        const DeviceArray<uint8_t> codes(static_cast<size_t>(rows * cols));
        const DeviceArray<float> scales(static_cast<size_t>(rows));
        const E4M3Rows out{codes.data(), scales.data(), rows, cols};
        run([&] {
          if (gated) {
            round_gated(ctx(), out, {device_x, device_x, device_up, ops::Activation::kGeluTanh},
                        form);
          } else {
            round_input(ctx(), out, device_x, form);
          }
        });
        const std::vector<uint8_t> got = codes.download();
        const std::vector<float> got_scales = scales.download();
        const PaddedMat stored = rounded(values, DType::kBF16);
        int64_t others = 0;
        for (int64_t row = 0; row < rows; ++row) {
          const float scale = got_scales[static_cast<size_t>(row)];
          const float expected = scale_of(stored, row, form);
          EXPECT_NEAR(scale, expected, gated ? expected * 0x1p-7 : 0) << row;
          for (int64_t i = 0; i < cols; ++i) {
            const uint8_t code = got[static_cast<size_t>(row * cols + i)];
            const float value = stored.at(row, i) / scale;
            others += e4m3_to_float(code) != e4m3_to_float(float_to_e4m3(value)) ? 1 : 0;
          }
        }
        // Functions are less exact on a GPU: now and then a value is rounded the other way.
        EXPECT_LE(others, gated ? rows * cols / 50 : 0) << rows << " x " << cols;
      }
    }
  }
}

TEST_F(LinearE4M3, EmbedsRowsOfCodes) {
  const Matrix table = random_matrix(48, 80, dynamic_form(80));
  const std::vector<int32_t> ids = {5, 47, 0, 5};
  const DeviceArray<int32_t> device_ids(ids);
  PaddedMat expected(4, 80);
  ref::embed(host_, {expected, &table.host, ids.data(), 3.0f});
  const DeviceMat actual(PaddedMat(4, 80), DType::kF32);
  run([&] { ops().embed(ctx(), {actual, &table.device, device_ids.data(), 3.0f}); });
  expect_near(actual, expected, 1e-6);
}

// Others become values, of which bfloat16 is made.
TEST_F(LinearE4M3, WhichMatricesStay) {
  const auto stays = [&](int64_t rows, int64_t cols, int64_t scale_block, const InputForm& form,
                         DType dtype = DType::kF8E4M3) {
    ops::Weight host = testing::random_weight(rng_, dtype, rows, cols);
    host.scale_block = scale_block;
    host.input = form;
    const auto packed = pack(host);
    EXPECT_TRUE(packed.ok());
    return packed->has_value();
  };
  EXPECT_TRUE(stays(32, 256, 256, dynamic_form(256)));
  EXPECT_TRUE(stays(32, 256, 256, static_form(0.5f)));
  EXPECT_FALSE(stays(32, 256, 128, dynamic_form(256)));
  EXPECT_FALSE(stays(32, 256, 256, dynamic_form(128)));
  EXPECT_FALSE(stays(32, 256, 256, {}));
  EXPECT_FALSE(stays(24, 256, 256, dynamic_form(256)));
  EXPECT_FALSE(stays(32, 264, 264, dynamic_form(264)));
  EXPECT_FALSE(stays(16, 1 << 18, 1 << 18, dynamic_form(1 << 18)));
  EXPECT_FALSE(stays(32, 256, 256, dynamic_form(256), DType::kBF16));
}

}  // namespace
}  // namespace octavo::backends::cuda
