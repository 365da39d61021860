// Weight: a matrix [rows, cols] = [out_features, in_features] in the layout that the backend chose
// for it. Only the backend that packed it knows how to read it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/dtype.h"

namespace octavo::ops {

enum class PackedLayout : uint8_t {
  kRowMajor,  // as in the file: `rows` rows, each a run of values or blocks; no gaps
  kLanes8,    // of the CPU backend: 8 or 16 rows beside one another (backends/cpu/pack_lanes.h)
  kLanes16,
  kInt4Tiles,  // of the CUDA backend: codes of 4 bits (backends/cuda/tile/int4_tiles.h)
};

// Which numbers a quantised product's input may hold.
enum class InputRounding : uint8_t {
  kNone,
  kStaticE4M3,  // scale * an E4M3 number, the scale being fixed: what exceeds 448 * scale saturates
  kDynamicE4M3,  // the same with scale = largest magnitude / 448, for each row and group of values,
                 // but no larger than the scale that is given
};

// What a weight asks of the input that it is multiplied with. The determinism of ops.h holds: a row
// is rounded by itself.
struct InputForm {
  const int32_t* order =
      nullptr;  // [cols] in device memory: value i is x[order[i]]; null: as it is
  InputRounding rounding = InputRounding::kNone;
  float scale = 0;    // of kStaticE4M3; of kDynamicE4M3 the largest, 0: without a limit
  int64_t group = 0;  // of kDynamicE4M3: values that share a scale; the last group may be shorter
  bool by_kernel = false;  // the kernel of `linear` brings its input into this form itself

  bool operator==(const InputForm&) const = default;
  // Whether a kernel is given the input as it is.
  bool as_it_is() const {
    return by_kernel || (order == nullptr && rounding == InputRounding::kNone);
  }
};

// The analyser loses what the variant of a Result<Weight> holds.
struct Weight {  // NOLINT(clang-analyzer-core.uninitialized.Assign)
  PackedLayout layout = PackedLayout::kRowMajor;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;    // device memory
  std::shared_ptr<const void> owner;  // keeps all pointers valid: the mapped file, buffers

  // Of kF8E4M3 and kNVFP4: what multiplies each run of `scale_block` values of a row, the last of
  // which may be shorter. [rows, scales_per_row()] in device memory; null: nothing does.
  const float* scales = nullptr;
  int64_t scale_block = 0;

  // Of codes of 4 bits: columns that share a scale and a zero point; 0: nothing is known of that.
  int64_t group = 0;
  int64_t layout_bytes = 0;  // of data, where that is not `rows` rows of row_bytes()

  InputForm input;

  int64_t row_bytes() const { return dtype_bytes(dtype, cols); }
  int64_t size_bytes() const {
    const int64_t scale_bytes = rows * scales_per_row() * static_cast<int64_t>(sizeof(float));
    return (layout_bytes > 0 ? layout_bytes : rows * row_bytes()) + scale_bytes;
  }
  const std::byte* row(int64_t i) const { return data + i * row_bytes(); }  // of kRowMajor
  int64_t scales_per_row() const {
    return scale_block == 0 ? 0 : (cols + scale_block - 1) / scale_block;
  }
};

// Multiplies values [begin, begin + count) of a row with the weight's scales for them.
inline void scale_values(const Weight& w, int64_t row, int64_t begin, int64_t count,
                         float* values) {
  if (w.scales == nullptr) return;
  const float* scales = w.scales + row * w.scales_per_row();
  for (int64_t i = 0; i < count;) {
    const int64_t block = (begin + i) / w.scale_block;
    const int64_t end = std::min(count, (block + 1) * w.scale_block - begin);
    for (; i < end; ++i) values[i] *= scales[block];
  }
}

}  // namespace octavo::ops
