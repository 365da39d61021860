// What GGUF files are made of besides tensors: the types of metadata values and the constants of
// the container. Shared by the reader and the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace octavo::formats {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersion = 3;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr uint32_t kGgufDefaultAlignment = 32;
inline constexpr uint32_t kGgufMaxAlignment = 1 << 20;
inline constexpr uint32_t kGgufMaxDims = 4;
inline constexpr uint64_t kGgufMaxKeyBytes = 65535;  // the specification's limit

enum class GgufKind : uint8_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kNumGgufKinds = 13;

// The type of a metadata value; `element` counts only where `kind` is kArray.
struct GgufType {
  GgufKind kind = GgufKind::kU8;
  GgufKind element = GgufKind::kU8;
};

// "u32", "bool", "string"
inline std::string_view gguf_kind_name(GgufKind kind) {
  constexpr std::string_view kNames[kNumGgufKinds] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                      "i32", "f32", "bool", "string", "array",
                                                      "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(kind)];
}

// "u32", "array[string]"
inline std::string gguf_type_name(GgufType type) {
  std::string name(gguf_kind_name(type.kind));
  if (type.kind == GgufKind::kArray) name.append("[").append(gguf_kind_name(type.element)) += "]";
  return name;
}

// Bytes of one value of a numeric kind or bool; 0 for strings and arrays.
inline uint64_t gguf_kind_bytes(GgufKind kind) {
  constexpr uint8_t kBytes[kNumGgufKinds] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(kind)];
}

// Whether `alignment` may be used: a power of two, a multiple of 8 as the specification asks (so
// that every value of a tensor is aligned in memory), and small enough to be meant.
inline bool gguf_alignment_is_valid(uint64_t alignment) {
  return alignment >= 8 && alignment <= kGgufMaxAlignment && (alignment & (alignment - 1)) == 0;
}

// Rounds up to a multiple of `alignment`, a power of two; `offset` is at most a file's size.
inline uint64_t gguf_align(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

// Calls `visit` with a zero of the C++ type of a numeric kind. Bool, string and array, which each
// need checks of their own, have been handled before.
template <typename Visit>
auto gguf_visit_number(GgufKind kind, Visit&& visit) {
  switch (kind) {
    case GgufKind::kU8:
      return visit(uint8_t{});
    case GgufKind::kI8:
      return visit(int8_t{});
    case GgufKind::kU16:
      return visit(uint16_t{});
    case GgufKind::kI16:
      return visit(int16_t{});
    case GgufKind::kU32:
      return visit(uint32_t{});
    case GgufKind::kI32:
      return visit(int32_t{});
    case GgufKind::kF32:
      return visit(float{});
    case GgufKind::kU64:
      return visit(uint64_t{});
    case GgufKind::kI64:
      return visit(int64_t{});
    default:
      return visit(double{});
  }
}

}  // namespace octavo::formats
