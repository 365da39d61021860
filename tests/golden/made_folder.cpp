#include "golden/made_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "formats/safetensors_writer.h"
#include "octavo/model.h"
#include "ops/decode_row.h"
#include "quant/scheme.h"
#include "tensor/float8.h"

namespace octavo::testing {

std::string golden_folder(const std::string& name) {
  return OCTAVO_TEST_DATA "/goldens/" + name;
}

std::vector<std::string> golden_names(bool quantized) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder(""))) {
    if (!entry.is_directory()) continue;
    const std::string path = entry.path() / "config.json";
    const Json config = parse_json(formats::read_text_file(path).value(), path).value();
    if ((quant::find_quantization_config(config) != nullptr) == quantized) {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_linear(const formats::TensorInfo& info) {
  const std::string_view name = info.name;
  return info.shape.size() == 2 && name.ends_with(".weight") && !name.ends_with("norm.weight") &&
         name.find("embed_tokens") == std::string_view::npos && !name.ends_with("lm_head.weight");
}

void quantize(const Tensor& tensor, std::vector<Tensor>& quantized, std::vector<Tensor>& plain) {
  const int64_t rows = tensor.shape[0];
  const int64_t cols = tensor.shape[1];
  std::vector<float> values(rows * cols);
  ops::decode_row_fn(tensor.dtype)(tensor.data, values.data(), rows * cols);
  std::vector<uint8_t> codes(values.size());
  std::vector<float> scales(rows);
  for (int64_t row = 0; row < rows; ++row) {
    float largest = 1e-6f;
    for (int64_t i = 0; i < cols; ++i) {
      largest = std::max(largest, std::abs(values[row * cols + i]));
    }
    scales[row] = largest / kE4M3Max;
    for (int64_t i = row * cols; i < (row + 1) * cols; ++i) {
      codes[i] = float_to_e4m3(values[i] / scales[row]);
      values[i] = e4m3_to_float(codes[i]) * scales[row];
    }
  }
  quantized.push_back(owned(tensor.name, DType::kF8E4M3, tensor.shape, codes));
  quantized.push_back(owned(tensor.name + "_scale", DType::kF32, {rows, 1}, scales));
  plain.push_back(owned(tensor.name, DType::kF32, tensor.shape, values));
}

bool is_expert_stack(const formats::TensorInfo& info) {
  return info.shape.size() == 3 && info.name.find(".experts.") != std::string::npos;
}

std::vector<Tensor> split_stack(const Tensor& stack) {
  const int64_t in = stack.shape[1];
  const int64_t out = stack.shape[2];
  std::vector<float> values(stack.count());
  ops::decode_row_fn(stack.dtype)(stack.data, values.data(), stack.count());
  const size_t stem = stack.name.rfind('.') + 1;
  const bool gate_up = stack.name.substr(stem) == "gate_up_proj";
  const std::vector<std::string> parts = gate_up ? std::vector<std::string>{"gate_proj", "up_proj"}
                                                 : std::vector<std::string>{"down_proj"};
  const auto rows = out / static_cast<int64_t>(parts.size());
  std::vector<Tensor> experts;
  for (int64_t expert = 0; expert < stack.shape[0]; ++expert) {
    for (size_t part = 0; part < parts.size(); ++part) {
      std::vector<float> matrix;
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t column = static_cast<int64_t>(part) * rows + row;
        for (int64_t i = 0; i < in; ++i) {
          matrix.push_back(values[(expert * in + i) * out + column]);
        }
      }
      const std::string name =
          format("{}{}.{}.weight", stack.name.substr(0, stem), expert, parts[part]);
      experts.push_back(owned(name, DType::kF32, {rows, in}, std::move(matrix)));
    }
  }
  return experts;
}

void write_folder(const std::string& folder, const Json& config, std::span<const Tensor> tensors) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << dump_json(config);
  const Status status = formats::write_safetensors(folder + "/model.safetensors", tensors);
  ASSERT_TRUE(status.ok()) << status.message();
}

std::vector<float> logits_of(const std::string& folder, const char* backend,
                             const std::vector<TokenId>& ids) {
  LoadOptions options;
  options.backend = backend;
  options.dtype = "float32";
  options.kv_cache_dtype = "float32";
  const auto model = Model::load(folder, options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return {};
  return (*model)->logits(ids, LogitsPositions::kAll).value().values;
}

}  // namespace octavo::testing
