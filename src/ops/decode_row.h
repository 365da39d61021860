// Weights of any type to float: the meaning of every block type, in plain C++. Used by the oracle,
// by embedding look-ups and wherever a kernel for the packed form is missing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace octavo::ops {

// dst[0, count) = the values of a row that starts at `src`; count is a multiple of the block size.
using DecodeRowFn = void (*)(const std::byte* src, float* dst, int64_t count);

// nullptr for types that no weight may have.
DecodeRowFn decode_row_fn(DType dtype);

// The scale of an MXFP4 block; NaN where `e` is 255.
float mxfp4_scale(uint8_t e);

// That of 16 values of an NVFP4 block. The code that is NaN in E4M3 means zero, as in llama.cpp.
float nvfp4_scale(uint8_t d);

}  // namespace octavo::ops
