// The layout rules of shared memory and fragments against a plain model of the hardware: a copy
// engine that writes boxes, a matrix unit that follows descriptors, and a product in plain loops.
#include "backends/cuda/tile/swizzle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace octavo::backends::cuda {
namespace {

constexpr int kPoison = -1'000'000;

// Shared memory by 16-bit element.
class SharedMemory {
 public:
  explicit SharedMemory(int bytes) : elements_(static_cast<size_t>(bytes / 2), kPoison) {}
  int& at(uint32_t address) { return elements_.at(address / 2); }

 private:
  std::vector<int> elements_;
};

int value(int row, int column) {
  return row * 1000 + column;
}

// As the hardware applies it, to bits of the address: chunk (4..6) ^= row (7..9).
uint32_t swizzle_128b(uint32_t address) {
  return address ^ (address >> 7 & 7) << 4;
}

// What TMA does with a box of 64 columns from (first_row, first_column): its rows of 128 bytes one
// after another, the swizzle applied to address bits.
void copy_box(SharedMemory& memory, uint32_t destination, int first_row, int first_column,
              int rows) {
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < 64; ++column) {
      const uint32_t linear = destination + static_cast<uint32_t>(row * 128 + column * 2);
      const uint32_t chunk = linear / 16 % 8 ^ linear / 128 % 8;
      memory.at(linear / 128 * 128 + chunk * 16 + linear % 16) =
          value(first_row + row, first_column + column);
    }
  }
}

void copy_tile(SharedMemory& memory, uint32_t tile, int rows, int columns, int box_rows) {
  for (int column = 0; column < columns; column += 64) {
    for (int row = 0; row < rows; row += box_rows) {
      copy_box(memory, tile + static_cast<uint32_t>((column / 64 * rows + row) * 128), row, column,
               box_rows);
    }
  }
}

struct Fields {
  uint32_t start, leading, stride;
};

Fields decode(uint64_t descriptor) {
  EXPECT_EQ(descriptor >> 62, 1u) << "swizzle of 128 bytes";
  EXPECT_EQ(descriptor >> 49 & 7, 0u) << "base offset";
  const auto field = [&](int bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3FFF) * 16;
  };
  return {field(0), field(16), field(32)};
}

// The matrix unit reads element [mn, k] of a K-major operand: groups of 8 rows `stride` apart.
int read_k_major(SharedMemory& memory, uint64_t descriptor, int mn, int k) {
  const Fields f = decode(descriptor);
  const uint32_t linear = f.start + static_cast<uint32_t>(mn / 8) * f.stride +
                          static_cast<uint32_t>(mn % 8 * 128 + k * 2);
  return memory.at(swizzle_128b(linear));
}

// And of an MN-major one: panels of 64 of mn `leading` apart, groups of 8 of k `stride` apart.
int read_mn_major(SharedMemory& memory, uint64_t descriptor, int mn, int k) {
  const Fields f = decode(descriptor);
  const uint32_t linear = f.start + static_cast<uint32_t>(mn / 64) * f.leading +
                          static_cast<uint32_t>(k / 8) * f.stride +
                          static_cast<uint32_t>(k % 8 * 128 + mn % 64 * 2);
  return memory.at(swizzle_128b(linear));
}

struct Tile {
  int rows, columns, box_rows;
};
const std::vector<Tile> kTiles = {{128, 128, 128}, {128, 128, 16}, {176, 128, 176}, {80, 256, 80},
                                  {64, 256, 16},   {128, 64, 32},  {192, 64, 192},  {128, 128, 64}};

TEST(Swizzle, KMajorDescriptorsReachEveryElement) {
  constexpr uint32_t kStart = 3 * kSwizzleAtomBytes;
  for (const Tile& tile : kTiles) {
    SharedMemory memory(static_cast<int>(kStart) + tile.rows * tile.columns * 2);
    copy_tile(memory, kStart, tile.rows, tile.columns, tile.box_rows);
    for (int column = 0; column < tile.columns; ++column) {
      const uint64_t descriptor =
          advance(k_major_descriptor(kStart), k_major_step(tile.rows, column / 16));
      for (int row = 0; row < tile.rows; ++row) {
        ASSERT_EQ(read_k_major(memory, descriptor, row, column % 16), value(row, column));
      }
    }
  }
}

TEST(Swizzle, MnMajorDescriptorsReachEveryElement) {
  constexpr uint32_t kStart = 5 * kSwizzleAtomBytes;
  for (const Tile& tile : kTiles) {
    SharedMemory memory(static_cast<int>(kStart) + tile.rows * tile.columns * 2);
    copy_tile(memory, kStart, tile.rows, tile.columns, tile.box_rows);
    for (int row = 0; row < tile.rows; ++row) {
      const uint64_t descriptor =
          advance(mn_major_descriptor(kStart, tile.rows), mn_major_step(row / 16));
      for (int column = 0; column < tile.columns; ++column) {
        ASSERT_EQ(read_mn_major(memory, descriptor, column, row % 16), value(row, column));
      }
    }
  }
}

// A descriptor near the end of shared memory does not carry from the address into other fields.
TEST(Swizzle, StepsStayWithinTheAddressField) {
  constexpr uint32_t kLast = 227 * 1024 / 1024 * 1024 - 16 * kSwizzleAtomBytes;
  const uint64_t descriptor = advance(k_major_descriptor(kLast), k_major_step(128, 3));
  EXPECT_EQ(decode(descriptor).start, kLast + 96);
  EXPECT_EQ(decode(descriptor).stride, 1024u);
}

TEST(Fragments, AccumulatorsCoverTheTileOnce) {
  constexpr int kColumns = 176;
  std::set<std::pair<int, int>> seen;
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < kColumns / 2; ++i) {
      seen.emplace(accumulator_row(thread, i), accumulator_column(thread, i));
    }
  }
  EXPECT_EQ(seen.size(), 64u * kColumns);
  EXPECT_EQ(*seen.begin(), std::pair(0, 0));
  EXPECT_EQ(*seen.rbegin(), std::pair(63, kColumns - 1));
}

// Accumulators i = 8 * step .. 8 * step + 7 hold rows and columns of operand A's step `step`.
TEST(Fragments, AccumulatorsAreTheNextOperand) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(accumulator_row(thread, i), operand_a_row(thread, i % 8));
      EXPECT_EQ(accumulator_column(thread, i), i / 8 * 16 + operand_a_column(thread, i % 8));
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
