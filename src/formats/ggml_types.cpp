#include "formats/ggml_types.h"

namespace octavo::formats {
namespace {

constexpr auto kSupported = GgmlSupport::kSupported;
constexpr auto kActivation = GgmlSupport::kActivationOnly;
constexpr auto kRemoved = GgmlSupport::kRemoved;

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4, kSupported, DType::kF32},
    {1, "F16", 1, 2, kSupported, DType::kF16},
    {2, "Q4_0", 32, 18, kSupported, DType::kQ4_0},
    {3, "Q4_1", 32, 20, kSupported, DType::kQ4_1},
    {4, "Q4_2", 0, 0, kRemoved, {}},
    {5, "Q4_3", 0, 0, kRemoved, {}},
    {6, "Q5_0", 32, 22, kSupported, DType::kQ5_0},
    {7, "Q5_1", 32, 24, kSupported, DType::kQ5_1},
    {8, "Q8_0", 32, 34, kSupported, DType::kQ8_0},
    {9, "Q8_1", 32, 36, kActivation, {}},
    {10, "Q2_K", 256, 84, kSupported, DType::kQ2_K},
    {11, "Q3_K", 256, 110, kSupported, DType::kQ3_K},
    {12, "Q4_K", 256, 144, kSupported, DType::kQ4_K},
    {13, "Q5_K", 256, 176, kSupported, DType::kQ5_K},
    {14, "Q6_K", 256, 210, kSupported, DType::kQ6_K},
    {15, "Q8_K", 256, 292, kActivation, {}},
    {16, "IQ2_XXS", 256, 66, kSupported, DType::kIQ2_XXS},
    {17, "IQ2_XS", 256, 74, kSupported, DType::kIQ2_XS},
    {18, "IQ3_XXS", 256, 98, kSupported, DType::kIQ3_XXS},
    {19, "IQ1_S", 256, 50, kSupported, DType::kIQ1_S},
    {20, "IQ4_NL", 32, 18, kSupported, DType::kIQ4_NL},
    {21, "IQ3_S", 256, 110, kSupported, DType::kIQ3_S},
    {22, "IQ2_S", 256, 82, kSupported, DType::kIQ2_S},
    {23, "IQ4_XS", 256, 136, kSupported, DType::kIQ4_XS},
    {24, "I8", 1, 1, kSupported, DType::kI8},
    {25, "I16", 1, 2, kSupported, DType::kI16},
    {26, "I32", 1, 4, kSupported, DType::kI32},
    {27, "I64", 1, 8, kSupported, DType::kI64},
    {28, "F64", 1, 8, kSupported, DType::kF64},
    {29, "IQ1_M", 256, 56, kSupported, DType::kIQ1_M},
    {30, "BF16", 1, 2, kSupported, DType::kBF16},
    {31, "Q4_0_4_4", 0, 0, kRemoved, {}},
    {32, "Q4_0_4_8", 0, 0, kRemoved, {}},
    {33, "Q4_0_8_8", 0, 0, kRemoved, {}},
    {34, "TQ1_0", 256, 54, kSupported, DType::kTQ1_0},
    {35, "TQ2_0", 256, 66, kSupported, DType::kTQ2_0},
    {36, "IQ4_NL_4_4", 0, 0, kRemoved, {}},
    {37, "IQ4_NL_4_8", 0, 0, kRemoved, {}},
    {38, "IQ4_NL_8_8", 0, 0, kRemoved, {}},
    {39, "MXFP4", 32, 17, kSupported, DType::kMXFP4},
    {40, "NVFP4", 64, 36, kSupported, DType::kNVFP4},
    {41, "Q1_0", 128, 18, kSupported, DType::kQ1_0},
    {42, "Q2_0", 64, 18, kSupported, DType::kQ2_0},
};

// The id is the index, so that look-up is one bounds check.
constexpr bool ids_are_indexes() {
  for (uint32_t i = 0; i < std::size(kGgmlTypes); ++i) {
    if (kGgmlTypes[i].id != i) return false;
  }
  return true;
}
static_assert(ids_are_indexes());

}  // namespace

std::span<const GgmlType> ggml_types() {
  return kGgmlTypes;
}

const GgmlType* find_ggml_type(uint32_t id) {
  return id < std::size(kGgmlTypes) ? &kGgmlTypes[id] : nullptr;
}

const GgmlType* ggml_type_of(DType dtype) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

}  // namespace octavo::formats
