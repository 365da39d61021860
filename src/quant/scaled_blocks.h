// GGUF files with matrices of NVFP4 blocks, whose values are relative to one more scale: the tensor
// NAME.scale beside NAME.weight. No quantization_config says so; the tensors do.
#pragma once

#include <memory>
#include <span>

#include "quant/scheme.h"

namespace octavo::quant {

// The scheme of a GGUF file with these tensors; null where it has no use for one.
std::shared_ptr<const Scheme> find_scaled_blocks(std::span<const formats::TensorInfo> tensors);

// Whether such a file's tensor is a scale for activations in 4 bits, which nothing here needs.
bool is_input_scale(std::string_view name);

}  // namespace octavo::quant
