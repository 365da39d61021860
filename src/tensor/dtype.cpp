#include "tensor/dtype.h"

namespace octavo {
namespace {

constexpr DTypeTraits kTraits[kNumDTypes] = {
    {"float32", 1, 4, false}, {"float16", 1, 2, false},       {"bfloat16", 1, 2, false},
    {"float64", 1, 8, false}, {"int8", 1, 1, false},          {"int16", 1, 2, false},
    {"int32", 1, 4, false},   {"int64", 1, 8, false},         {"uint8", 1, 1, false},
    {"uint16", 1, 2, false},  {"uint32", 1, 4, false},        {"uint64", 1, 8, false},
    {"bool", 1, 1, false},    {"float8_e4m3fn", 1, 1, false}, {"float8_e5m2", 1, 1, false},
    {"q4_0", 32, 18, true},   {"q4_1", 32, 20, true},         {"q5_0", 32, 22, true},
    {"q5_1", 32, 24, true},   {"q8_0", 32, 34, true},
};

}  // namespace

const DTypeTraits& dtype_traits(DType dtype) {
  return kTraits[static_cast<int>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kTraits[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace octavo
