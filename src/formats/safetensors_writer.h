// Writes a .safetensors file: an 8-byte little-endian header length, a JSON header, the tensors'
// bytes.
#pragma once

#include <span>
#include <string>

#include "octavo/status.h"
#include "tensor/tensor.h"

namespace octavo::formats {

// Tensors must have distinct names and plain dtypes. The file appears whole or not at all, as an
// OutputFile.
Status write_safetensors(const std::string& path, std::span<const Tensor> tensors);

}  // namespace octavo::formats
