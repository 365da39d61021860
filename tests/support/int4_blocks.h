// Random matrices as schemes of 4 bits are loaded: blocks of kQ4_0 or kQ5_0 whose groups have one
// scale and values that are at most 15 apart.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "ops/blocks.h"
#include "ops/weight.h"
#include "tensor/float16.h"

namespace octavo::testing {

struct Int4Blocks {
  DType type;
  int64_t rows, cols;
  std::shared_ptr<std::vector<std::byte>> bytes;

  // Every range of a group, the lowest and the highest among them; scales of either sign.
  Int4Blocks(Rng& rng, DType t, int64_t r, int64_t c, int64_t group) : type(t), rows(r), cols(c) {
    bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(r * dtype_bytes(t, c)));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; col += group) {
        const int least = type == DType::kQ4_0 ? -8 : -16 + static_cast<int>(rng.next_u64() % 17);
        const float size = 0.01f + 0.0001f * static_cast<float>(rng.next_u64() % 997);
        const uint16_t scale = float_to_fp16(rng.next_u64() % 8 == 0 ? -size : size);
        for (int64_t i = col; i < col + group; ++i) {
          if (i % 32 == 0) std::memcpy(block(row, i), &scale, sizeof(scale));
          set(row, i, least + static_cast<int>(rng.next_u64() % 16));
        }
      }
    }
  }

  const std::byte* row(int64_t i) const { return bytes->data() + i * dtype_bytes(type, cols); }
  // The difference of code and zero point.
  void set(int64_t row, int64_t col, int difference) {
    const int code = difference + (type == DType::kQ4_0 ? 8 : 16);
    const int64_t at = col % 32, low = at % 16;
    std::byte* const b = block(row, col);
    const bool five = type == DType::kQ5_0;
    std::byte& pair = b[(five ? offsetof(ops::BlockQ5_0, qs) : offsetof(ops::BlockQ4_0, qs)) + low];
    const int shift = at >= 16 ? 4 : 0;
    pair = (pair & ~(std::byte{15} << shift)) | static_cast<std::byte>(code & 15) << shift;
    if (!five) return;
    std::byte& high = b[offsetof(ops::BlockQ5_0, qh) + at / 8];
    const std::byte bit = std::byte{1} << (at % 8);
    high = code >= 16 ? high | bit : high & ~bit;
  }
  // In host memory.
  ops::Weight weight(int64_t group) const {
    ops::Weight w;
    w.dtype = type;
    w.rows = rows;
    w.cols = cols;
    w.data = bytes->data();
    w.owner = bytes;
    w.group = group;
    return w;
  }

 private:
  std::byte* block(int64_t row, int64_t col) const {
    return bytes->data() + row * dtype_bytes(type, cols) + dtype_bytes(type, col / 32 * 32);
  }
};

}  // namespace octavo::testing
