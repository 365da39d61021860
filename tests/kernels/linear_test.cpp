// Every linear kernel of the table against the oracle: on the activations as the kernel rounds them
// (tight: only the order of sums differs) and as they were (loose).
#include <gtest/gtest.h>

#include "backends/cpu/device_cpu.h"
#include "backends/cpu/fine_blocks.h"
#include "backends/cpu/linear_panels.h"
#include "backends/cpu/pack_lanes.h"
#include "kernel_test_util.h"
#include "ops/decode_row.h"
#include "tensor/float16.h"
#include "tolerance.h"

namespace octavo::testing {
namespace {

using backends::Arithmetic;
using backends::cpu::Kernel;

struct LinearCase {
  const Kernel* kernel;
  DType dtype;
};

std::vector<LinearCase> linear_cases() {
  std::vector<LinearCase> cases;
  for (const Kernel* kernel : runnable_kernels("linear")) {
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto dtype = static_cast<DType>(i);
      if ((kernel->weights & backends::cpu::dtype_bit(dtype)) != 0)
        cases.push_back({kernel, dtype});
    }
  }
  return cases;
}

std::string linear_name(const ::testing::TestParamInfo<LinearCase>& info) {
  return std::string(info.param.kernel->name) + "_" +
         std::string(dtype_traits(info.param.dtype).name);
}

// A row rounded to int8 in blocks of 32; of `num_fine` blocks with the largest values to 15 bits.
void round_to_int8(float* row, int64_t cols, int64_t num_fine) {
  std::vector<std::pair<float, int64_t>> blocks;  // -largest, where it begins
  for (int64_t b = 0; b < cols; b += 32) {
    float top = 0;
    for (int i = 0; i < 32; ++i) top = std::max(top, std::abs(row[b + i]));
    blocks.emplace_back(-top, b);
  }
  std::sort(blocks.begin(), blocks.end());
  for (size_t n = 0; n < blocks.size(); ++n) {
    const float top = -blocks[n].first;
    const float steps = static_cast<int64_t>(n) < num_fine ? 128 : 1;
    const float inverse = top == 0 ? 0 : 127 / top * steps;
    float* block = row + blocks[n].second;
    for (int i = 0; i < 32; ++i)
      block[i] = std::nearbyint(block[i] * inverse) * (top / 127) / steps;
  }
}

// x as a kernel of this arithmetic sees it, by its definition.
PaddedMat rounded(const PaddedMat& x, Arithmetic arithmetic, bool outliers = false) {
  PaddedMat result = x;
  for (int64_t t = 0; t < x.mat().rows; ++t) {
    float* row = result.mat().row<float>(t);
    if (arithmetic == Arithmetic::kBFloat16) {
      for (int64_t i = 0; i < x.mat().cols; ++i) row[i] = bf16_to_float(float_to_bf16(row[i]));
    } else if (arithmetic == Arithmetic::kInt8) {
      const int64_t cols = x.mat().cols;
      round_to_int8(row, cols, outliers ? backends::cpu::num_fine_blocks(cols / 32) : 0);
    }
  }
  return result;
}

// The largest error of an output relative to its sum of |x * w|.
double linear_error(const PaddedMat& actual, const PaddedMat& x, const ops::LinearArgs& a) {
  PaddedMat expected(a.x.rows, a.w->rows);
  ops::ExecContext ctx;
  backends::ref::linear(ctx, {expected, x, a.w, a.bias});
  std::vector<float> w(a.w->cols);
  double worst = 0;
  for (int64_t n = 0; n < a.w->rows; ++n) {
    ops::decode_row_fn(a.w->dtype)(a.w->row(n), w.data(), a.w->cols);
    for (int64_t t = 0; t < a.x.rows; ++t) {
      double magnitude = 1e-30 + (a.bias == nullptr ? 0 : std::abs(a.bias[n]));
      for (int64_t k = 0; k < a.w->cols; ++k) magnitude += std::abs(x.at(t, k) * w[k]);
      const double difference = std::abs(static_cast<double>(actual.at(t, n)) - expected.at(t, n));
      if (!(difference / magnitude <= worst)) worst = difference / magnitude;
    }
  }
  return worst;
}

class LinearKernel : public ::testing::TestWithParam<LinearCase> {
 protected:
  // At least `cols`.
  int64_t whole_blocks(int64_t cols) const {
    const int64_t size = dtype_traits(GetParam().dtype).block_size;
    return (cols + size - 1) / size * size;
  }
  std::vector<int64_t> widths() const {
    switch (dtype_traits(GetParam().dtype).block_size) {
      case 1:
        return {1, 7, 33, 64, 255, 577, 1100};
      case 32:
        return {32, 64, 576, 1536};
      case 64:
        return {64, 192, 576, 1536};
      case 128:
        return {128, 384, 1152, 1536};
      default:
        return {256, 512, 1280, 1792};
    }
  }
  void run(Context& context, const ops::LinearArgs& args) const {
    call(*GetParam().kernel, context, args);
  }
};

TEST_P(LinearKernel, AgreesWithTheOracle) {
  Rng rng(1);
  for (const int64_t cols : widths()) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 17}) {
      const int64_t outputs = random_int(rng, 1, 90);
      const ops::Weight w = random_weight(rng, GetParam().dtype, outputs, cols);
      const PaddedMat x = PaddedMat::random(rng, rows, cols, 3);
      const PaddedMat bias = PaddedMat::random(rng, 1, outputs);
      PaddedMat out(rows, outputs, 7);
      Context context(2, rows, cols);
      const bool outliers = rows % 3 != 1;
      const ops::LinearArgs args = {out, x, &w, rows % 2 == 0 ? bias.mat().row<float>(0) : nullptr,
                                    outliers};
      run(context, args);
      ASSERT_TRUE(out.padding_is_untouched()) << rows << " x " << cols << " x " << outputs;
      const Arithmetic arithmetic = GetParam().kernel->arithmetic;
      ASSERT_LE(linear_error(out, rounded(x, arithmetic, outliers), args), kLinearSameActivations)
          << rows << " x " << cols << " x " << outputs;
      ASSERT_LE(linear_error(out, x, args), linear_tolerance(arithmetic))
          << rows << " x " << cols << " x " << outputs;
    }
  }
}

double mean_square_error(const PaddedMat& actual, const PaddedMat& x, const ops::Weight& w) {
  PaddedMat exact(x.mat().rows, w.rows);
  ops::ExecContext ctx;
  backends::ref::linear(ctx, {exact, x, &w});
  double sum = 0;
  for (int64_t t = 0; t < x.mat().rows; ++t) {
    for (int64_t n = 0; n < w.rows; ++n) sum += std::pow(actual.at(t, n) - exact.at(t, n), 2);
  }
  return sum / static_cast<double>(x.mat().rows * w.rows);
}

// One value far above the others costs its block's other values most of their bits.
TEST_P(LinearKernel, OutliersAreRoundedFinely) {
  if (GetParam().kernel->arithmetic != Arithmetic::kInt8) GTEST_SKIP() << "does not round to int8";
  Rng rng(9);
  const int64_t cols = whole_blocks(576);
  constexpr int64_t kOutputs = 65;
  for (const int64_t rows : {1, 7, 40}) {
    const ops::Weight w = random_weight(rng, GetParam().dtype, kOutputs, cols);
    PaddedMat x = PaddedMat::random(rng, rows, cols);
    for (int64_t t = 0; t < rows; ++t) x.at(t, random_int(rng, 0, cols - 1)) = 100;
    PaddedMat plain(rows, kOutputs);
    PaddedMat fine(rows, kOutputs);
    Context context(1, rows, cols);
    run(context, {plain, x, &w});
    run(context, {fine, x, &w, nullptr, true});
    ASSERT_LE(mean_square_error(fine, x, w), 0.3 * mean_square_error(plain, x, w)) << rows;
  }
}

// LinearArgs::outliers.
constexpr bool kOutliers[] = {false, true};

TEST_P(LinearKernel, RowsAloneAreTheSameBitsAsInABatch) {
  Rng rng(2);
  const int64_t cols = whole_blocks(1057);
  const int64_t outputs = 75;
  const int64_t rows = 141;  // more than a block of rows
  const ops::Weight w = random_weight(rng, GetParam().dtype, outputs, cols);
  const PaddedMat x = PaddedMat::random(rng, rows, cols, 3);
  Context context(1, rows, cols);
  for (const bool outliers : kOutliers) {
    PaddedMat batch(rows, outputs);
    run(context, {batch, x, &w, nullptr, outliers});
    for (const int64_t first : {0, 1, 5, 63, 127, 128, 140}) {
      for (const int64_t count : {1, 2, 3, 7, 13}) {
        if (first + count > rows) continue;
        PaddedMat alone(count, outputs);
        ops::Mat part = x.mat();
        part.data = part.row<float>(first);
        run(context, {alone, part.top(count), &w, nullptr, outliers});
        ASSERT_TRUE(same_bits(alone, batch, first)) << first << " + " << count;
      }
    }
  }
}

TEST_P(LinearKernel, ThreadsDoNotChangeABit) {
  Rng rng(3);
  const int64_t cols = whole_blocks(601);
  for (const int64_t rows : {1, 40}) {
    const ops::Weight w = random_weight(rng, GetParam().dtype, 145, cols);
    const PaddedMat x = PaddedMat::random(rng, rows, cols);
    PaddedMat one(rows, 145);
    Context single(1, rows, cols);
    run(single, {one, x, &w, nullptr, true});
    for (const int threads : {2, 3}) {
      PaddedMat many(rows, 145);
      Context context(threads, rows, cols);
      run(context, {many, x, &w, nullptr, true});
      ASSERT_TRUE(same_bits(one, many)) << threads;
    }
  }
}

// The same as with weights that were multiplied before.
TEST_P(LinearKernel, ScalesMultiplyRunsOfARow) {
  if (GetParam().dtype != DType::kF8E4M3 && GetParam().dtype != DType::kNVFP4) {
    GTEST_SKIP() << "has no scales";
  }
  Rng rng(6);
  constexpr int64_t kOutputs = 37;
  for (int64_t cols : {1, 33, 300, 577}) {
    cols = whole_blocks(cols);
    for (const int64_t block : {int64_t{1}, int64_t{7}, int64_t{32}, int64_t{128}, cols}) {
      if (block > cols) continue;
      ops::Weight w = random_weight(rng, GetParam().dtype, kOutputs, cols);
      w.scale_block = block;
      std::vector<float> scales(kOutputs * w.scales_per_row());
      for (float& scale : scales) scale = random_normal(rng);
      w.scales = scales.data();
      std::vector<float> values(kOutputs * cols);
      for (int64_t n = 0; n < kOutputs; ++n) {
        ops::decode_row_fn(w.dtype)(w.row(n), &values[n * cols], cols);
        for (int64_t k = 0; k < cols; ++k) {
          values[n * cols + k] *= scales[n * w.scales_per_row() + k / block];
        }
      }
      ops::Weight multiplied = w;
      multiplied.scales = nullptr;
      multiplied.dtype = DType::kF32;
      multiplied.data = reinterpret_cast<const std::byte*>(values.data());
      const PaddedMat x = PaddedMat::random(rng, 3, cols);
      PaddedMat out(3, kOutputs);
      Context context(2, 3, cols);
      run(context, {out, x, &w});
      const PaddedMat seen = rounded(x, GetParam().kernel->arithmetic);
      ASSERT_LE(linear_error(out, seen, {out, x, &multiplied}), kLinearSameActivations)
          << cols << " in " << block;
      PaddedMat oracle(3, kOutputs);
      ops::ExecContext ctx;
      backends::ref::linear(ctx, {oracle, x, &w});
      ASSERT_LE(linear_error(oracle, x, {oracle, x, &multiplied}), kLinearSameActivations);
    }
  }
}

TEST_P(LinearKernel, ZerosAndExtremesStayFinite) {
  Rng rng(4);
  const int64_t cols = whole_blocks(64);
  const ops::Weight w = random_weight(rng, GetParam().dtype, 33, cols);
  PaddedMat x = PaddedMat::random(rng, 3, cols);
  for (int64_t k = 0; k < cols; ++k) {
    x.at(0, k) = 0;
    x.at(1, k) = k % 2 == 0 ? 1e30f : -1e30f;
    x.at(2, k) = 1e-30f;
  }
  Context context(1, 3, cols);
  for (const bool outliers : kOutliers) {
    PaddedMat out(3, 33);
    run(context, {out, x, &w, nullptr, outliers});
    for (int64_t n = 0; n < 33; ++n) {
      EXPECT_EQ(out.at(0, n), 0);
      EXPECT_TRUE(std::isfinite(out.at(1, n)));
      EXPECT_TRUE(std::isfinite(out.at(2, n)));
    }
  }
}

TEST_P(LinearKernel, NanAndInfinityAreNotLost) {
  Rng rng(5);
  const int64_t cols = whole_blocks(64);
  const ops::Weight w = random_weight(rng, GetParam().dtype, 33, cols);
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    PaddedMat x = PaddedMat::random(rng, 3, cols);
    x.at(1, 37) = bad;
    Context context(1, 3, cols);
    for (const bool outliers : kOutliers) {
      PaddedMat out(3, 33);
      run(context, {out, x, &w, nullptr, outliers});
      for (int64_t n = 0; n < 33; ++n) {
        EXPECT_TRUE(std::isfinite(out.at(0, n)));
        EXPECT_FALSE(std::isfinite(out.at(1, n))) << bad;
        EXPECT_TRUE(std::isfinite(out.at(2, n)));
      }
    }
  }
}

// A copy of `w` that is packed by one thread, or by several; row i is row source_rows[i] of w.
ops::Weight packed(const ops::Weight& w, int lanes, const std::vector<int64_t>& source_rows,
                   ThreadPool* pool) {
  ops::PackContext ctx{backends::cpu::cpu_device(), pool, nullptr};
  return backends::cpu::pack_lanes(ctx, w, source_rows, lanes, "the weight").value();
}

// A row of weights that holds one is lost as a whole, and no other row.
TEST_P(LinearKernel, CodesThatAreNoNumberAreNotLost) {
  const DType dtype = GetParam().dtype;
  if (dtype != DType::kMXFP4 && dtype != DType::kF8E4M3) GTEST_SKIP() << "has none";
  Rng rng(8);
  constexpr int64_t kOutputs = 37;
  const int64_t cols = whole_blocks(96);
  const auto expect_lost = [&](const ops::Weight& w, int64_t lost) {
    for (const int64_t rows : {1, 7, 40}) {
      const PaddedMat x = PaddedMat::random(rng, rows, cols);
      PaddedMat out(rows, kOutputs);
      Context context(1, rows, cols);
      run(context, {out, x, &w});
      for (int64_t n = 0; n < kOutputs; ++n) {
        ASSERT_EQ(std::isnan(out.at(rows - 1, n)), n == lost) << n << " of " << rows;
      }
    }
  };
  for (const int code : {0x7F, 0xFF}) {
    if (dtype == DType::kMXFP4 && code != 0xFF) continue;
    for (const int64_t row : {0, 9, 36}) {
      SCOPED_TRACE(::testing::Message() << "code " << code << " in row " << row);
      const ops::Weight w = random_weight(rng, dtype, kOutputs, cols);
      auto* bytes = const_cast<std::byte*>(w.row(row));
      bytes[w.row_bytes() - dtype_traits(dtype).block_bytes] = static_cast<std::byte>(code);
      expect_lost(w, row);
      const int lanes = backends::cpu::lanes_of(*GetParam().kernel, dtype, cols);
      if (lanes > 0) expect_lost(packed(w, lanes, {}, nullptr), row);
    }
  }
}

TEST_P(LinearKernel, PackedWeightsGiveTheBitsOfRows) {
  Rng rng(6);
  ThreadPool pool(2);
  bool any = false;
  for (const int64_t cols : widths()) {
    const int lanes = backends::cpu::lanes_of(*GetParam().kernel, GetParam().dtype, cols);
    if (lanes == 0) continue;
    any = true;
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 24, 25, 32, 33, 141}) {
      const int64_t outputs = random_int(rng, 1, 90);
      const ops::Weight w = random_weight(rng, GetParam().dtype, outputs, cols);
      const ops::Weight lanes_of_w = packed(w, lanes, {}, rows % 2 == 0 ? &pool : nullptr);
      const PaddedMat x = PaddedMat::random(rng, rows, cols, 3);
      PaddedMat expected(rows, outputs);
      PaddedMat out(rows, outputs, 7);
      Context context(2, rows, cols);
      const bool outliers = rows % 3 != 1;
      run(context, {expected, x, &w, nullptr, outliers});
      run(context, {out, x, &lanes_of_w, nullptr, outliers});
      ASSERT_TRUE(out.padding_is_untouched()) << rows << " x " << cols << " x " << outputs;
      ASSERT_TRUE(same_bits(expected, out)) << rows << " x " << cols << " x " << outputs;
    }
  }
  if (!any) GTEST_SKIP() << "reads rows only";
}

TEST_P(LinearKernel, RowsOfPackedWeightsCanBeHadBack) {
  const int64_t cols = whole_blocks(600);
  const int lanes = backends::cpu::lanes_of(*GetParam().kernel, GetParam().dtype, cols);
  if (lanes == 0) GTEST_SKIP() << "reads rows only";
  Rng rng(7);
  constexpr int64_t kRows = 837;  // several parts for each thread
  const ops::Weight w = random_weight(rng, GetParam().dtype, kRows, cols);
  std::vector<int64_t> source_rows(kRows);
  for (int64_t n = 0; n < kRows; ++n) source_rows[n] = kRows - 1 - n;
  ThreadPool pool(3);
  const ops::Weight lanes_of_w = packed(w, lanes, source_rows, &pool);
  const auto unit = backends::cpu::packed_unit(w.dtype);
  std::vector<std::byte> row(w.row_bytes());
  for (int64_t n = 0; n < kRows; ++n) {
    for (int64_t u = 0; u < cols / unit.values; ++u) {
      backends::cpu::copy_packed_unit(row.data() + u * unit.bytes, lanes_of_w, n, u);
    }
    ASSERT_EQ(std::memcmp(row.data(), w.row(source_rows[n]), row.size()), 0) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, LinearKernel, ::testing::ValuesIn(linear_cases()), linear_name);

}  // namespace
}  // namespace octavo::testing
