// Data types of tensors: plain numbers and the block types of GGUF (a block is `block_size` values
// in `block_bytes` bytes; a row is a whole number of blocks).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace octavo {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kIQ3_S,
  kIQ3_XXS,
  kIQ2_S,
  kIQ2_XS,
  kIQ2_XXS,
  kIQ1_M,
  kIQ1_S,
  kTQ2_0,
  kTQ1_0,
  kNVFP4,
  kQ1_0,
  kQ2_0,
};
inline constexpr int kNumDTypes = 40;

struct DTypeTraits {
  std::string_view name;  // e.g. "bfloat16", "q4_1"
  int32_t block_size;     // values in a block; 1 for plain numbers
  int32_t block_bytes;
  bool quantized;
};

const DTypeTraits& dtype_traits(DType dtype);

// The type called `name` (as in DTypeTraits::name), if there is one.
std::optional<DType> parse_dtype(std::string_view name);

// Bytes of `count` values; `count` must be a multiple of the block size.
inline int64_t dtype_bytes(DType dtype, int64_t count) {
  const DTypeTraits& traits = dtype_traits(dtype);
  return count / traits.block_size * traits.block_bytes;
}

}  // namespace octavo
