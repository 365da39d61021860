// Stacks of quantised matrices, and linears with FBGEMM's limit of activations: values and products
// against those of tests/data/fbgemm; scales of NVFP4 blocks; what is wrong with them.
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "quant/quantized_matrix.h"
#include "quant/scaled_blocks.h"
#include "unit/quant/damage.h"
#include "unit/quant/folder_source.h"
#include "unit/quant/product.h"

namespace octavo::quant {
namespace {

using testing::Damage;
using testing::expect_error;
using testing::FloatTensors;
using testing::FolderSource;
using testing::holding;
using testing::kInfinity;
using testing::kNan;
using testing::lacks;
using testing::MemorySource;
using testing::shaped;
using testing::typed;

constexpr int64_t kExperts = 3;
constexpr int64_t kHidden = 48;
constexpr int64_t kInter = 20;

std::string fbgemm_folder() {
  return OCTAVO_TEST_DATA "/fbgemm";
}

// Matrix `index` of a stack that lies transposed, as one that backends compute with.
QuantizedMatrix matrix_of(const QuantizedStack& stack, int64_t index, int64_t rows, int64_t cols) {
  auto bytes = std::make_shared<std::vector<std::byte>>(rows * cols);
  const std::byte* src = stack.tensor.data + index * rows * cols;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) (*bytes)[row * cols + col] = src[col * rows + row];
  }
  QuantizedMatrix matrix;
  matrix.tensor = {stack.tensor.name, stack.tensor.dtype, {rows, cols}, bytes->data(), bytes};
  const auto scales = stack.scales.begin() + index * rows;
  matrix.scales.assign(scales, scales + rows);
  matrix.scale_block = stack.scale_block;
  matrix.input = stack.input;
  return matrix;
}

std::vector<float> values_of(const QuantizedMatrix& matrix) {
  const QuantizedMatrix floats = decode(matrix);
  const auto* values = reinterpret_cast<const float*>(floats.tensor.data);
  return {values, values + floats.tensor.count()};
}

void expect_products(const QuantizedMatrix& matrix, const FloatTensors& golden,
                     const std::string& input, std::span<const float> expected) {
  const std::vector<float> rounded = golden.at(input + ".rounded");
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    const testing::Product product =
        testing::multiply(backend, matrix, golden.at(input + ".input"));
    EXPECT_EQ(product.rounded, rounded);
    ASSERT_EQ(product.out.size(), expected.size());
    const int64_t rows = matrix.tensor.shape[0];
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / rows;
      double largest = 0;
      for (int64_t j = 0; j < rows; ++j) {
        largest = std::max(largest, std::abs(double{expected[row * rows + j]}));
      }
      EXPECT_NEAR(product.out[i], expected[i], 1e-5 * largest) << i;
    }
  }
}

TEST(Fbgemm, ALinearDecodesAndMultipliesAsNumpyDoes) {
  FolderSource source(fbgemm_folder());
  const FloatTensors golden(fbgemm_folder() + "/golden.safetensors");
  const auto scheme = source.scheme().value();
  EXPECT_EQ(scheme->description(),
            "fbgemm_fp8: E4M3, one scale for each row; activations E4M3 by token, within 1200");
  EXPECT_FALSE(scheme->holds(source, "lm_head"));
  ASSERT_TRUE(scheme->holds(source, "linear"));
  const auto matrix = scheme->load(source, "linear", 24, kHidden).value();
  EXPECT_EQ(values_of(matrix), golden.at("linear"));
  expect_products(matrix, golden, "hidden", golden.at("linear.product"));
}

TEST(Fbgemm, StacksDecodeAndMultiplyAsNumpyDoes) {
  FolderSource source(fbgemm_folder());
  const FloatTensors golden(fbgemm_folder() + "/golden.safetensors");
  const auto scheme = source.scheme().value();
  struct Case {
    const char* name;
    int64_t rows, cols;
    const char* input;
  };
  for (const Case& c : {Case{"experts.gate_up_proj", 2 * kInter, kHidden, "hidden"},
                        Case{"experts.down_proj", kHidden, kInter, "inter"}}) {
    SCOPED_TRACE(c.name);
    const auto stack = scheme->load_stack(source, c.name, kExperts, c.rows, c.cols).value();
    ASSERT_TRUE(stack.has_value());
    const std::vector<float> values = golden.at(c.name);
    const std::vector<float> products = golden.at(format("{}.product", c.name));
    const size_t size = c.rows * c.cols;
    const size_t num_products = products.size() / kExperts;
    for (int64_t i = 0; i < kExperts; ++i) {
      const QuantizedMatrix matrix = matrix_of(*stack, i, c.rows, c.cols);
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i * size);
      EXPECT_EQ(values_of(matrix), std::vector<float>(begin, begin + c.rows * c.cols));
      expect_products(matrix, golden, c.input,
                      std::span(products).subspan(i * num_products, num_products));
    }
  }
  EXPECT_EQ(source.left_over(), (std::vector<std::string>{"linear.weight", "linear.weight_scale"}));
}

constexpr const char* kFbgemm = R"({"quant_method":"fbgemm_fp8"})";
constexpr const char* kChannel = R"({"quant_method":"compressed-tensors",
    "format":"float-quantized","ignore":["re:.*router.*"],"config_groups":{"g":{
    "targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"},
    "input_activations":{"num_bits":8,"type":"float","strategy":"token","dynamic":true}}}})";

std::shared_ptr<const Scheme> scheme_from(const char* config) {
  return read_scheme(parse_json(config, "test").value(), "test").value();
}

// Two matrices [4, 3] that lie transposed.
MemorySource small_stack(const Shape& scale_shape = {2, 1, 4}) {
  MemorySource source;
  source.add("e.gate_up_proj", DType::kF8E4M3, {2, 3, 4}, std::vector<uint8_t>(24, 0x38));
  source.add("e.gate_up_proj_scale", DType::kF32, scale_shape,
             std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  return source;
}

TEST(Stacks, ScalesOfRowsWhateverTheirShape) {
  for (const char* config : {kFbgemm, kChannel}) {
    for (const Shape& shape : {Shape{2, 1, 4}, Shape{2, 4, 1}, Shape{2, 4}}) {
      MemorySource source = small_stack(shape);
      const auto stack = scheme_from(config)->load_stack(source, "e.gate_up_proj", 2, 4, 3).value();
      ASSERT_TRUE(stack.has_value());
      EXPECT_EQ(stack->scales, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
      EXPECT_EQ(stack->scale_block, 3);
      EXPECT_EQ(stack->input.rounding, ops::InputRounding::kDynamicE4M3);
      EXPECT_EQ(stack->input.group, 3);
    }
  }
}

TEST(Stacks, WhatASchemeDoesNotHold) {
  const auto holds = [](const char* config) {
    MemorySource source = small_stack();
    return scheme_from(config)->load_stack(source, "e.gate_up_proj", 2, 4, 3).value().has_value();
  };
  EXPECT_TRUE(holds(kFbgemm));
  EXPECT_FALSE(holds(R"({"quant_method":"fbgemm_fp8","modules_to_not_convert":["e"]})"));
  EXPECT_FALSE(holds(R"({"quant_method":"fp8"})"));
  EXPECT_FALSE(holds(R"({"quant_method":"fp8","weight_block_size":[128,128]})"));
  EXPECT_FALSE(holds(R"({"quant_method":"awq","bits":4,"group_size":32})"));
  EXPECT_FALSE(holds(R"({"quant_method":"compressed-tensors","format":"pack-quantized",
      "config_groups":{"g":{"targets":["Linear"],
      "weights":{"num_bits":4,"strategy":"channel"}}}})"));
  MemorySource plain;
  plain.add("e.gate_up_proj", DType::kF32, {2, 3, 4}, std::vector<float>(24, 1));
  EXPECT_FALSE(
      scheme_from(kFbgemm)->load_stack(plain, "e.gate_up_proj", 2, 4, 3).value().has_value());
}

TEST(Stacks, OfFilesThatAreMeasured) {
  MemorySource source = small_stack();
  source.set_measures(true);
  const auto stack = scheme_from(kFbgemm)->load_stack(source, "e.gate_up_proj", 2, 4, 3).value();
  ASSERT_TRUE(stack.has_value());
  EXPECT_TRUE(stack->scales.empty());
  EXPECT_EQ(stack->scale_block, 3);
}

// An NVFP4 matrix [2, 64] and a stack of three, each with its scale.
MemorySource scaled_blocks() {
  MemorySource source;
  source.add("a.weight", DType::kNVFP4, {2, 64}, std::vector<uint8_t>(72, 0x38));
  source.add("a.scale", DType::kF32, {1}, std::vector<float>{0.5f});
  source.add("s.weight", DType::kNVFP4, {3, 2, 64}, std::vector<uint8_t>(216, 0x38));
  source.add("s.scale", DType::kF32, {3}, std::vector<float>{1, 2, 3});
  source.add("plain.weight", DType::kNVFP4, {2, 64}, std::vector<uint8_t>(72, 0x38));
  source.add("other.weight", DType::kF32, {1, 2}, std::vector<float>{1, 2});
  source.add("other.scale", DType::kF32, {1}, std::vector<float>{1});
  return source;
}

std::shared_ptr<const Scheme> blocks_scheme() {
  return find_scaled_blocks(std::vector{formats::TensorInfo{"a", DType::kNVFP4, {2, 64}, 0, 72}});
}

TEST(ScaledBlocks, OneScaleForEachMatrix) {
  EXPECT_EQ(find_scaled_blocks(std::vector{formats::TensorInfo{"a", DType::kF32, {1}, 0, 4}}),
            nullptr);
  const auto scheme = blocks_scheme();
  MemorySource source = scaled_blocks();
  EXPECT_TRUE(scheme->holds(source, "a"));
  EXPECT_FALSE(scheme->holds(source, "plain"));
  EXPECT_FALSE(scheme->holds(source, "other"));
  const auto matrix = scheme->load(source, "a", 2, 64).value();
  EXPECT_EQ(matrix.scales, (std::vector<float>{0.5f, 0.5f}));
  EXPECT_EQ(matrix.scale_block, 64);
  EXPECT_TRUE(matrix.input.as_it_is());
  // The scale is 1 / 2, the codes 8 and 3 are -0 and 1.5.
  const std::vector<float> values = values_of(matrix);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], i % 16 < 8 ? -0.0f : 0.75f) << i;
  }
  const auto stack = scheme->load_stack(source, "s.weight", 3, 2, 64).value();
  ASSERT_TRUE(stack.has_value());
  EXPECT_EQ(stack->scales, (std::vector<float>{1, 1, 2, 2, 3, 3}));
  EXPECT_FALSE(scheme->load_stack(source, "plain.weight", 1, 2, 64).value().has_value());
}

struct DamageCase {
  const char* name;
  Damage spoil;
  const char* says;
};

TEST(Stacks, DamagedTensors) {
  constexpr const char* kCodes = "e.gate_up_proj";
  constexpr const char* kScales = "e.gate_up_proj_scale";
  const DamageCase rows[] = {
      {"no codes", lacks(kCodes), "'e.gate_up_proj' is missing"},
      {"no scales", lacks(kScales), "'e.gate_up_proj_scale' is missing"},
      {"not transposed", shaped(kCodes, {2, 4, 3}), "'e.gate_up_proj' has shape [2, 4, 3]"},
      {"experts missing", shaped(kCodes, {1, 3, 4}), "'e.gate_up_proj' has shape [1, 3, 4]"},
      {"one matrix", shaped(kCodes, {6, 4}), "'e.gate_up_proj' has shape [6, 4]"},
      {"other codes", typed(kCodes, DType::kF8E5M2), "'e.gate_up_proj' is float8_e5m2"},
      {"integers", typed(kCodes, DType::kI8), "'e.gate_up_proj' is int8"},
      {"scales of columns", shaped(kScales, {2, 3, 1}), "_scale' has shape [2, 3, 1]"},
      {"scales of experts", shaped(kScales, {2, 1, 1}), "_scale' has shape [2, 1, 1]"},
      {"scales of one expert", shaped(kScales, {1, 1, 4}), "_scale' has shape [1, 1, 4]"},
      {"scales of all", shaped(kScales, {8}), "_scale' has shape [8]"},
      {"integer scales", typed(kScales, DType::kI32), "_scale' is int32"},
      {"scale NaN", holding(kScales, 5, kNan), "_scale' holds nan at 5"},
      {"scale infinite", holding(kScales, 0, kInfinity), "_scale' holds inf at 0"},
  };
  for (const char* config : {kFbgemm, kChannel}) {
    for (const DamageCase& row : rows) {
      SCOPED_TRACE(row.name);
      MemorySource source = small_stack();
      row.spoil(source);
      expect_error(scheme_from(config)->load_stack(source, kCodes, 2, 4, 3), row.says);
    }
  }
}

TEST(ScaledBlocks, DamagedTensors) {
  const auto scheme = blocks_scheme();
  const DamageCase matrices[] = {
      {"transposed", shaped("a.weight", {64, 2}), "'a.weight' has shape [64, 2]"},
      {"scale NaN", holding("a.scale", 0, kNan), "'a.scale' holds nan"},
      {"scale zero", holding("a.scale", 0, 0.0f), "'a.scale' holds 0, which must be positive"},
      {"scale negative", holding("a.scale", 0, -1.0f), "'a.scale' holds -1"},
      {"scale type", typed("a.scale", DType::kI32), "'a.scale' is int32"},
      {"two scales", shaped("a.scale", {2}), "'a.scale' has shape [2]"},
  };
  for (const DamageCase& row : matrices) {
    SCOPED_TRACE(row.name);
    MemorySource source = scaled_blocks();
    row.spoil(source);
    expect_error(scheme->load(source, "a", 2, 64), row.says);
  }
  const DamageCase stacks[] = {
      {"fewer matrices", shaped("s.weight", {2, 2, 64}), "'s.weight' has shape [2, 2, 64]"},
      {"flat", shaped("s.weight", {6, 64}), "'s.weight' has shape [6, 64]"},
      {"scale infinite", holding("s.scale", 2, kInfinity), "'s.scale' holds inf at 2"},
      {"one scale", shaped("s.scale", {1}), "'s.scale' has shape [1]"},
      {"scales of rows", shaped("s.scale", {3, 2}), "'s.scale' has shape [3, 2]"},
      {"scale type", typed("s.scale", DType::kQ8_0), "'s.scale' is q8_0"},
  };
  for (const DamageCase& row : stacks) {
    SCOPED_TRACE(row.name);
    MemorySource source = scaled_blocks();
    row.spoil(source);
    expect_error(scheme->load_stack(source, "s.weight", 3, 2, 64), row.says);
  }
}

}  // namespace
}  // namespace octavo::quant
