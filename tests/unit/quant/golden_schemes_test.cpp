// Every scheme on checkpoints whose decoded values and products are known: the goldens of
// tests/data/goldens, whose README says where they are from.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "formats/safetensors.h"
#include "quant/quantized_matrix.h"
#include "quant/scheme.h"
#include "tensor/float8.h"
#include "unit/quant/folder_source.h"
#include "unit/quant/product.h"

namespace octavo::quant {
namespace {

using testing::FolderSource;

// The CRC-32 of zlib, reflected polynomial 0xEDB88320.
uint32_t crc32(const std::byte* data, size_t size) {
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < size; ++i) {
    crc ^= static_cast<uint8_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

// [rows, cols] in the order of the file's columns.
std::vector<float> decoded_values(const QuantizedMatrix& matrix) {
  const QuantizedMatrix floats = decode(matrix);
  const int64_t cols = floats.tensor.shape[1];
  std::vector<float> values(floats.tensor.count());
  std::memcpy(values.data(), floats.tensor.data, values.size() * sizeof(float));
  if (matrix.input_order.empty()) return values;
  std::vector<float> sorted(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    sorted[i / cols * cols + matrix.input_order[i % cols]] = values[i];
  }
  return sorted;
}

struct SchemeCase {
  const char* folder;
  DType held;
  const char* description;
};
const SchemeCase kCases[] = {
    {"llama_awq", DType::kQ5_0, "awq: int4 in groups of 128, with zero points"},
    {"llama_gptq", DType::kQ4_0, "gptq: int4 in groups of 64, symmetric"},
    {"llama_gptq_act_order", DType::kQ5_0,
     "gptq: int4 in groups of 32, with zero points, act order"},
    {"llama_ct_int4", DType::kQ5_0, "compressed-tensors: int4 in groups of 32, with zero points"},
    {"llama_fp8_channel", DType::kF8E4M3,
     "compressed-tensors: E4M3, one scale for each row; activations E4M3 by token"},
    {"llama_fp8_block", DType::kF8E4M3,
     "fp8: E4M3, one scale for 128 x 128 values; activations E4M3 by token and 128 values"},
    {"llama_fp8_tensor", DType::kF8E4M3,
     "fp8: E4M3, one scale for each matrix; activations E4M3 by a fixed scale"},
};

// Which linear the tensors `linear.*` are about: a note says "linear.*: NAME alone. ...".
std::string linear_of(const Json& golden) {
  const std::string_view start = "linear.*: ";
  for (const Json& note : golden.at("notes").as_array()) {
    const std::string text(to_view(note.as_string()));
    if (text.starts_with(start))
      return text.substr(start.size(), text.find(" alone") - start.size());
  }
  return "";
}

class GoldenSchemes : public ::testing::TestWithParam<SchemeCase> {};

TEST_P(GoldenSchemes, EveryMatrixDecodesToTheSameBits) {
  FolderSource source(OCTAVO_TEST_DATA "/goldens/" + std::string(GetParam().folder));
  const auto scheme = source.scheme().value();
  EXPECT_EQ(scheme->description(), GetParam().description);
  const Json golden = source.json("golden.json");
  const JsonObject& sums = golden.at("decoded_crc32").as_object();
  ASSERT_GT(sums.size(), 6u);
  for (const auto& sum : sums) {
    const std::string module(sum.key());
    ASSERT_TRUE(scheme->holds(source, module)) << module;
    const auto [rows, cols] = source.extents(module);
    const auto matrix = scheme->load(source, module, rows, cols);
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    EXPECT_EQ(matrix->tensor.dtype, GetParam().held);
    const auto values = decoded_values(*matrix);
    const uint32_t crc =
        crc32(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float));
    EXPECT_EQ(format("{:08x}", crc), std::string(to_view(sum.value().as_string()))) << module;
  }
  EXPECT_FALSE(scheme->holds(source, "lm_head"));
  EXPECT_FALSE(scheme->holds(source, "model.embed_tokens"));
}

// The rest of the tensors is what is plain: nothing of a linear is forgotten.
TEST_P(GoldenSchemes, EveryTensorOfALinearIsTaken) {
  FolderSource source(OCTAVO_TEST_DATA "/goldens/" + std::string(GetParam().folder));
  const auto scheme = source.scheme().value();
  const Json golden = source.json("golden.json");
  for (const auto& sum : golden.at("decoded_crc32").as_object()) {
    const std::string module(sum.key());
    const auto [rows, cols] = source.extents(module);
    ASSERT_TRUE(scheme->load(source, module, rows, cols).ok());
  }
  for (const std::string& name : source.left_over()) {
    EXPECT_TRUE(name.ends_with("norm.weight") || name.ends_with("embed_tokens.weight")) << name;
  }
}

// One linear alone: codes of the input, and the product.
TEST_P(GoldenSchemes, ProductsOfRoundedInputs) {
  if (GetParam().held != DType::kF8E4M3) GTEST_SKIP() << "inputs are not rounded";
  const std::string folder = OCTAVO_TEST_DATA "/goldens/" + std::string(GetParam().folder);
  FolderSource source(folder);
  const testing::FloatTensors golden(folder + "/golden.safetensors");
  const auto input = golden.at("linear.input");
  const auto output = golden.at("linear.output");
  const std::string module = linear_of(source.json("golden.json"));
  const auto [rows, cols] = source.extents(module);
  const auto matrix = source.scheme().value()->load(source, module, rows, cols).value();
  for (const char* name : {"ref", "cpu"}) {
    SCOPED_TRACE(name);
    const testing::Product product = testing::multiply(name, matrix, input);
    const int64_t n = static_cast<int64_t>(input.size()) / cols;
    const auto scales = golden.at("linear.scales");
    const auto codes = golden.bytes("linear.codes");
    const int64_t per_row = static_cast<int64_t>(scales.size()) / n;
    int64_t different = 0;
    for (size_t i = 0; i < product.rounded.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / cols;
      const auto col = static_cast<int64_t>(i) % cols;
      const float scale =
          per_row == 0 ? scales[0] : scales[row * per_row + (per_row == 1 ? 0 : col / 128)];
      different += product.rounded[i] != e4m3_to_float(static_cast<uint8_t>(codes[i])) * scale;
    }
    EXPECT_EQ(different, 0);
    double largest = 0;
    for (const float value : output) largest = std::max(largest, std::abs(double{value}));
    ASSERT_EQ(product.out.size(), output.size());
    for (size_t i = 0; i < output.size(); ++i) {
      EXPECT_NEAR(product.out[i], output[i], 1e-4 * largest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSchemes, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.folder); });

}  // namespace
}  // namespace octavo::quant
