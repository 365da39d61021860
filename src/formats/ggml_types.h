// The tensor types of GGUF files: every id that is known, whether octavo reads it or not, so that a
// refusal can name the type. The one table to extend for a new block format.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/dtype.h"

namespace octavo::formats {

enum class GgmlSupport {
  kSupported,       // `dtype` is set
  kActivationOnly,  // exists in memory while computing, never in a valid file
  kRemoved,         // once written, no longer defined by the format
};

struct GgmlType {
  uint32_t id;
  std::string_view name;
  int32_t block_size;   // values in a block; 0 for removed types
  int32_t block_bytes;  // 0 for removed types
  GgmlSupport support;
  std::optional<DType> dtype;
};

// In ascending order of id.
std::span<const GgmlType> ggml_types();

// nullptr for an id that no version of the format defines.
const GgmlType* find_ggml_type(uint32_t id);

// The type that stores `dtype`, or nullptr where GGUF has none.
const GgmlType* ggml_type_of(DType dtype);

}  // namespace octavo::formats
