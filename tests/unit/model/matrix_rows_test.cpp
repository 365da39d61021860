// Matrices that lie transposed in a file, wherever they begin in it.
#include "model/matrix_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace octavo::model {
namespace {

// The result at [row, col] is the source at [col, kBegin + row].
template <typename T>
void expect_transposed(DType dtype) {
  constexpr int64_t kRows = 37;  // of the result
  constexpr int64_t kCols = 70;
  constexpr int64_t kBegin = 3;
  constexpr int64_t kStride = 45;
  std::vector<T> values(kCols * kStride);
  std::iota(values.begin(), values.end(), T{1});
  std::vector<std::byte> bytes(values.size() * sizeof(T) + 1);
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
  const Tensor source{"w", dtype, {kCols, kStride}, bytes.data() + 1, nullptr};
  const Tensor result = transposed_columns(source, source.data, kBegin, kRows, kCols, kStride);
  EXPECT_EQ(result.shape, (Shape{kRows, kCols}));
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t col = 0; col < kCols; ++col) {
      T value;
      std::memcpy(&value, result.data + (row * kCols + col) * sizeof(T), sizeof(T));
      ASSERT_EQ(value, values[col * kStride + kBegin + row]) << row << ", " << col;
    }
  }
}

TEST(MatrixRows, TransposedColumnsMayBeginAtAnyByte) {
  expect_transposed<uint32_t>(DType::kF32);
  expect_transposed<uint16_t>(DType::kBF16);
  expect_transposed<uint8_t>(DType::kF8E4M3);
  EXPECT_FALSE(can_transpose(DType::kF64));
  EXPECT_FALSE(can_transpose(DType::kQ8_0));
}

// By hand: of a head of 6, the pairs (0, 1), (2, 3), (4, 5) become halves.
TEST(MatrixRows, AdjacentPairsBecomeHalves) {
  EXPECT_EQ(source_rows_of(12, {true, 6}),
            (std::vector<int64_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  EXPECT_EQ(source_rows_of(3, {false, 6}), (std::vector<int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace octavo::model
