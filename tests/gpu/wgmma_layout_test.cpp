// Products with small integers, which are exact: whatever tile a descriptor or a box misplaces
// shows as a wrong number. Skips without a Hopper GPU.
#include "tests/gpu/wgmma_layout.h"

#include <gtest/gtest.h>

#include "tensor/float16.h"
#include "tests/gpu/device_array.h"

namespace octavo::backends::cuda {
namespace {

int value(int row, int column, int seed) {
  return (row * 7 + column * 3 + row * column * 5 + seed) % 17 - 8;
}

DeviceArray<uint16_t> matrix(int rows, int columns, int seed) {
  std::vector<uint16_t> values;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      values.push_back(float_to_bf16(static_cast<float>(value(row, column, seed))));
    }
  }
  return DeviceArray<uint16_t>(values);
}

void expect_exact(const LayoutProbe& probe, int box_rows) {
  SCOPED_TRACE(testing::Message() << "n " << probe.n << " k " << probe.k << " MN-major "
                                  << probe.mn_major << " box rows " << box_rows);
  const auto a = matrix(64, probe.k, 1);
  const auto b = probe.mn_major ? matrix(probe.k, probe.n, 2) : matrix(probe.n, probe.k, 2);
  DeviceArray<float> out(static_cast<size_t>(64 * probe.n));
  out.fill_bytes(0xFF);
  ASSERT_EQ(probe.run(out.data(), a.data(), b.data(), box_rows), "");
  const std::vector<float> got = out.download();
  int wrong = 0;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < probe.n; ++column) {
      int sum = 0;
      for (int k = 0; k < probe.k; ++k) {
        sum += value(row, k, 1) * (probe.mn_major ? value(k, column, 2) : value(column, k, 2));
      }
      const float found = got[static_cast<size_t>(row * probe.n + column)];
      if (found != static_cast<float>(sum) && ++wrong == 1) {
        ADD_FAILURE() << "row " << row << " column " << column << ": " << found << ", not " << sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << 64 * probe.n;
}

TEST(WgmmaLayout, ProductsAreExact) {
  if (!has_hopper()) GTEST_SKIP() << "no GPU of sm_90 here";
  for (const LayoutProbe& probe : layout_probes()) {
    expect_exact(probe, probe.mn_major ? probe.k : probe.n);
    expect_exact(probe, 16);
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
