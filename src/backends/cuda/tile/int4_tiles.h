// Matrices of 4-bit codes in the order in which products of few tokens read them. Eight rows are a
// half tile, a run of pieces of 128 columns: of a piece each lane of a warp has 16 bytes, which are
// followed by a word for each row and group, its scale and its zero point. value = (code - zero) *
// scale. Rows and columns that the matrix does not have are zero. Plain C++, tested on the CPU.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "ops/blocks.h"
#include "ops/weight.h"
#include "tensor/dtype.h"

namespace octavo::backends::cuda {

inline constexpr int kInt4Rows = 8;                              // of a half tile
inline constexpr int kInt4Columns = 128;                         // of a piece
inline constexpr int kInt4Codes = kInt4Rows * kInt4Columns / 2;  // bytes of a piece

// The upper half of a group's word is 16 + zero point in bfloat16, the lower the scale in float16.
constexpr uint32_t int4_word(uint16_t scale, int zero) {
  return scale | static_cast<uint32_t>(0x4180 + 8 * zero) << 16;
}

struct Int4Tiles {
  int64_t rows = 0;
  int64_t cols = 0;
  int group = 0;  // columns that share a word: 32, 64 or 128

  constexpr int64_t pieces() const { return (cols - 1) / kInt4Columns + 1; }  // of a half tile
  constexpr int words() const { return kInt4Columns / group; }                // of a row in a piece
  constexpr int piece_bytes() const { return kInt4Codes + 4 * kInt4Rows * words(); }
  constexpr int64_t half_tiles() const { return (rows - 1) / kInt4Rows + 1; }
  constexpr int64_t half_tile_bytes() const { return pieces() * piece_bytes(); }
  constexpr int64_t bytes() const { return half_tiles() * half_tile_bytes(); }

  // The byte at which the piece with this value begins.
  constexpr int64_t piece(int64_t row, int64_t col) const {
    return row / kInt4Rows * half_tile_bytes() + col / kInt4Columns * piece_bytes();
  }
  // The byte of the word of eight codes that has this one. Lane 4 r + c has of row r columns 8 c to
  // 8 c + 7 of every 32, as it has of tokens.
  constexpr int64_t code_word(int64_t row, int64_t col) const {
    const int64_t lane = row % kInt4Rows * 4 + col % 32 / 8;
    return piece(row, col) + 16 * lane + col % kInt4Columns / 32 * 4;
  }
  // How far it is rotated to the left: columns 2 i and 2 i + 1 are 16 bits apart, so that one mask
  // finds both, the first two where bfloat16 has the upper bits of its fraction.
  static constexpr int code_place(int64_t col) {
    return static_cast<int>(3 + col % 8 / 2 * 4 + col % 2 * 16);
  }
  constexpr int64_t group_word(int64_t row, int64_t col) const {
    return piece(row, col) + kInt4Codes +
           4 * (row % kInt4Rows * words() + col % kInt4Columns / group);
  }
};

// Of a weight with PackedLayout::kInt4Tiles.
inline Int4Tiles int4_tiles(const ops::Weight& w) {
  return {w.rows, w.cols, static_cast<int>(w.group)};
}

// The widest group of tiles in which runs of `group` columns of a row of `cols` can be held; 0:
// there is none.
constexpr int int4_group(int64_t group, int64_t cols) {
  if (group <= 0 || cols <= 0 || cols % group != 0 || group % 32 != 0) return 0;
  return group % 128 == 0 ? 128 : group % 64 == 0 ? 64 : 32;
}

// The values of a block of 32 of kQ4_0 or kQ5_0, without its scale, which is returned.
inline uint16_t int4_differences(const std::byte* block, DType type, int (&out)[32]) {
  if (type == DType::kQ4_0) {
    ops::BlockQ4_0 b;
    std::memcpy(&b, block, sizeof(b));
    for (int j = 0; j < 16; ++j) {
      out[j] = (b.qs[j] & 15) - 8;
      out[j + 16] = (b.qs[j] >> 4) - 8;
    }
    return b.d;
  }
  ops::BlockQ5_0 b;
  std::memcpy(&b, block, sizeof(b));
  uint32_t high = 0;
  std::memcpy(&high, b.qh, sizeof(high));
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<int>((b.qs[j] & 15u) | (high >> j & 1) << 4) - 16;
    out[j + 16] = static_cast<int>((b.qs[j] >> 4) | (high >> (j + 16) & 1) << 4) - 16;
  }
  return b.d;
}

// A group of one row, of blocks of `type`, into zeroed tiles. False where it has several scales, or
// values that are more than 15 apart.
inline bool pack_int4_group(const Int4Tiles& tiles, int64_t row, int64_t col,
                            const std::byte* blocks, DType type, std::byte* out) {
  int values[kInt4Columns / 32][32];
  const int64_t block_bytes = dtype_bytes(type, 32);
  const int num_blocks = tiles.group / 32;
  uint16_t scale = 0;
  int least = 0, most = -16;  // the code of a difference of zero need not exist
  for (int i = 0; i < num_blocks; ++i) {
    const uint16_t d = int4_differences(blocks + i * block_bytes, type, values[i]);
    if (i > 0 && d != scale) return false;
    scale = d;
    least = std::min(least, *std::min_element(values[i], values[i] + 32));
    most = std::max(most, *std::max_element(values[i], values[i] + 32));
  }
  if (most - least > 15) return false;
  const uint32_t word = int4_word(scale, -least);
  std::memcpy(out + tiles.group_word(row, col), &word, sizeof(word));
  for (int begin = 0; begin < tiles.group; begin += 8) {
    uint32_t codes = 0;
    for (int j = 0; j < 8; ++j) {
      const int code = values[begin / 32][begin % 32 + j] - least;
      codes |= std::rotl(static_cast<uint32_t>(code), Int4Tiles::code_place(j));
    }
    std::memcpy(out + tiles.code_word(row, col + begin), &codes, sizeof(codes));
  }
  return true;
}

// A row of `blocks`.
inline bool pack_int4_row(const Int4Tiles& tiles, int64_t row, const std::byte* blocks, DType type,
                          std::byte* out) {
  for (int64_t col = 0; col < tiles.cols; col += tiles.group) {
    if (!pack_int4_group(tiles, row, col, blocks + dtype_bytes(type, col), type, out)) return false;
  }
  return true;
}

}  // namespace octavo::backends::cuda
