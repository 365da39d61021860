// The golden checkpoints, and those that tests make of them: quantised, taken apart, put together
// again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "formats/checkpoint.h"
#include "octavo/tokenizer.h"

namespace octavo::testing {

std::string golden_folder(const std::string& name);

// The checkpoints of tests/data/goldens that are quantised, or those that are not, in order.
std::vector<std::string> golden_names(bool quantized);

template <typename T>
Tensor owned(const std::string& name, DType dtype, const Shape& shape, std::vector<T> values) {
  auto data = std::make_shared<std::vector<T>>(std::move(values));
  return {name, dtype, shape, reinterpret_cast<const std::byte*>(data->data()), data};
}

bool is_linear(const formats::TensorInfo& info);

// The matrix as codes and scales of rows, and as the values that these mean.
void quantize(const Tensor& tensor, std::vector<Tensor>& quantized, std::vector<Tensor>& plain);

bool is_expert_stack(const formats::TensorInfo& info);

// Llama 4's stack of experts, [expert, in, out], as the matrices [out, in] of single experts; gate
// and up stand beside each other.
std::vector<Tensor> split_stack(const Tensor& stack);

void write_folder(const std::string& folder, const Json& config, std::span<const Tensor> tensors);

// In float32, of all positions; empty where the folder does not load, which fails the test.
std::vector<float> logits_of(const std::string& folder, const char* backend,
                             const std::vector<TokenId>& ids = {5, 17, 3, 99, 42, 7, 23});

}  // namespace octavo::testing
