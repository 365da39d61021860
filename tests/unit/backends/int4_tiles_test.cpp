// Tiles of 4-bit codes: read as the lanes of a product's kernel read them, they hold what the
// blocks decode to; what does not fit into 4 bits is refused.
#include "backends/cuda/tile/int4_tiles.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "ops/decode_row.h"
#include "support/int4_blocks.h"
#include "tensor/float16.h"

namespace octavo::backends::cuda {
namespace {

using testing::Int4Blocks;

std::vector<std::byte> pack(const Int4Tiles& tiles, const Int4Blocks& blocks, bool& fits) {
  std::vector<std::byte> out(static_cast<size_t>(tiles.bytes()));
  fits = true;
  for (int64_t row = 0; row < tiles.rows; ++row) {
    fits = fits && pack_int4_row(tiles, row, blocks.row(row), blocks.type, out.data());
  }
  return out;
}

uint32_t word_at(const std::vector<std::byte>& bytes, int64_t at) {
  uint32_t word = 0;
  EXPECT_LE(at + 4, static_cast<int64_t>(bytes.size()));
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

// By half tile, piece and lane, with the padding.
std::vector<float> read_back(const Int4Tiles& tiles, const std::vector<std::byte>& bytes) {
  const int64_t padded_rows = tiles.half_tiles() * 8, padded_cols = tiles.pieces() * 128;
  std::vector<float> values(static_cast<size_t>(padded_rows * padded_cols), NAN);
  const int words = 128 / tiles.group;
  const int piece_bytes = 512 + 32 * words;
  for (int64_t half = 0; half < tiles.half_tiles(); ++half) {
    for (int64_t piece = 0; piece < tiles.pieces(); ++piece) {
      const int64_t at = (half * tiles.pieces() + piece) * piece_bytes;
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
          const uint32_t codes = word_at(bytes, at + 16 * lane + 4 * i);
          const uint32_t word =
              word_at(bytes, at + 512 + 4 * (lane / 4 * words + 32 * i / tiles.group));
          const float scale = fp16_to_float(static_cast<uint16_t>(word));
          const float zero = bf16_to_float(static_cast<uint16_t>(word >> 16));
          const int64_t row = half * 8 + lane / 4;
          const int64_t col = piece * 128 + 32 * i + lane % 4 * 8;
          for (int j = 0; j < 8; ++j) {
            const uint32_t code = std::rotr(codes, 3 + j / 2 * 4 + j % 2 * 16) & 15;
            values[static_cast<size_t>(row * padded_cols + col + j)] =
                (16 + static_cast<float>(code) - zero) * scale;
          }
        }
      }
    }
  }
  return values;
}

TEST(Int4Tiles, HoldWhatBlocksDecodeTo) {
  Rng rng(5);
  for (const DType type : {DType::kQ4_0, DType::kQ5_0}) {
    for (const int group : {32, 64, 128}) {
      for (const int64_t rows : {1, 8, 9, 24}) {
        for (const int64_t cols : {1, 2, 5, 9}) {
          const Int4Tiles tiles = {rows, cols * group, group};
          SCOPED_TRACE(::testing::Message() << rows << " x " << tiles.cols << " by " << group);
          const Int4Blocks blocks(rng, type, rows, tiles.cols, group);
          bool fits = false;
          const auto packed = pack(tiles, blocks, fits);
          ASSERT_TRUE(fits);
          const std::vector<float> values = read_back(tiles, packed);
          std::vector<float> expected(static_cast<size_t>(tiles.cols));
          const int64_t pitch = tiles.pieces() * 128;
          for (int64_t row = 0; row < rows; ++row) {
            ops::decode_row_fn(type)(blocks.row(row), expected.data(), tiles.cols);
            for (int64_t col = 0; col < pitch; ++col) {
              const float want = col < tiles.cols ? expected[static_cast<size_t>(col)] : 0.0f;
              ASSERT_EQ(values[static_cast<size_t>(row * pitch + col)], want) << row << ", " << col;
            }
          }
        }
      }
    }
  }
}

TEST(Int4Tiles, RefuseWhatDoesNotFit) {
  Rng rng(6);
  bool fits = false;
  const Int4Tiles tiles = {4, 256, 128};
  Int4Blocks wide(rng, DType::kQ5_0, 4, 256, 128);
  pack(tiles, wide, fits);
  EXPECT_TRUE(fits);
  wide.set(3, 200, -16);
  wide.set(3, 201, -1);
  for (int64_t col = 128; col < 256; ++col) {
    if (col != 200) wide.set(3, col, -1);
  }
  pack(tiles, wide, fits);
  EXPECT_TRUE(fits);  // 15 apart
  wide.set(3, 201, 0);
  pack(tiles, wide, fits);
  EXPECT_FALSE(fits);
  const Int4Blocks finer(rng, DType::kQ4_0, 4, 256, 64);  // scales of halves of a group
  pack(tiles, finer, fits);
  EXPECT_FALSE(fits);
}

TEST(Int4Tiles, GroupsThatAreHeld) {
  EXPECT_EQ(int4_group(32, 96), 32);
  EXPECT_EQ(int4_group(64, 128), 64);
  EXPECT_EQ(int4_group(96, 192), 32);
  EXPECT_EQ(int4_group(128, 4096), 128);
  EXPECT_EQ(int4_group(11008, 11008), 128);  // a scale for each row
  EXPECT_EQ(int4_group(0, 128), 0);          // not known
  EXPECT_EQ(int4_group(48, 96), 0);
  EXPECT_EQ(int4_group(128, 192), 0);
}

}  // namespace
}  // namespace octavo::backends::cuda
