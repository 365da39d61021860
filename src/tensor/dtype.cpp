#include "tensor/dtype.h"

#include <iterator>

namespace octavo {
namespace {

constexpr DTypeTraits kTraits[] = {
    {"float32", 1, 4, false}, {"float16", 1, 2, false},       {"bfloat16", 1, 2, false},
    {"float64", 1, 8, false}, {"int8", 1, 1, false},          {"int16", 1, 2, false},
    {"int32", 1, 4, false},   {"int64", 1, 8, false},         {"uint8", 1, 1, false},
    {"uint16", 1, 2, false},  {"uint32", 1, 4, false},        {"uint64", 1, 8, false},
    {"bool", 1, 1, false},    {"float8_e4m3fn", 1, 1, false}, {"float8_e5m2", 1, 1, false},
    {"q4_0", 32, 18, true},   {"q4_1", 32, 20, true},         {"q5_0", 32, 22, true},
    {"q5_1", 32, 24, true},   {"q8_0", 32, 34, true},         {"q2_k", 256, 84, true},
    {"q3_k", 256, 110, true}, {"q4_k", 256, 144, true},       {"q5_k", 256, 176, true},
    {"q6_k", 256, 210, true}, {"iq4_nl", 32, 18, true},       {"iq4_xs", 256, 136, true},
    {"mxfp4", 32, 17, true},  {"iq3_s", 256, 110, true},      {"iq3_xxs", 256, 98, true},
    {"iq2_s", 256, 82, true}, {"iq2_xs", 256, 74, true},      {"iq2_xxs", 256, 66, true},
    {"iq1_m", 256, 56, true}, {"iq1_s", 256, 50, true},       {"tq2_0", 256, 66, true},
    {"tq1_0", 256, 54, true}, {"nvfp4", 64, 36, true},        {"q1_0", 128, 18, true},
    {"q2_0", 64, 18, true},
};
static_assert(std::size(kTraits) == kNumDTypes);

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
