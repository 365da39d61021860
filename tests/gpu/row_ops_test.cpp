// Ops of the CUDA backend that work on rows and heads, against `ref`: shapes of every alignment,
// both types of activations, padding that is NaN and must stay.
#include "tensor/float8.h"
#include "tests/gpu/ops_harness.h"
#include "tests/tolerance.h"

namespace octavo::backends::cuda {
namespace {

using octavo::testing::random_int;
using octavo::testing::relative_error;

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};
struct Shape {
  int64_t rows, cols, padding;
};
constexpr Shape kShapes[] = {{1, 1, 3},     {3, 7, 1},     {5, 64, 4},   {2, 576, 0},
                             {9, 577, 3},   {4, 4096, 8},  {33, 128, 0}, {300, 64, 4},
                             {2, 14336, 0}, {1, 20000, 12}};

double tolerance(DType dtype, double exact) {
  return dtype == DType::kF32 ? exact : exact + testing::kGpuBf16Rounding;
}

void expect_near(const DeviceMat& actual, const PaddedMat& expected, double allowed) {
  const PaddedMat got = actual.download();
  EXPECT_LE(relative_error(got, expected), allowed)
      << expected.mat().rows << " x " << expected.mat().cols;
  EXPECT_TRUE(got.padding_is_untouched());
}

class RowOps : public OpsTest {
 protected:
  PaddedMat random(const Shape& s, DType dtype) {
    return rounded(PaddedMat::random(rng_, s.rows, s.cols, s.padding), dtype);
  }
  std::vector<int32_t> random_ids(int64_t count, int64_t end) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i)
      ids.push_back(static_cast<int32_t>(random_int(rng_, 0, end)));
    return ids;
  }

  Rng rng_{1};
  ops::ExecContext host_;
};

TEST_F(RowOps, RmsNorm) {
  for (const DType in : kDTypes) {
    for (const DType out : kDTypes) {
      for (const Shape& s : kShapes) {
        const PaddedMat x = random(s, in);
        const PaddedMat weight = random({1, s.cols, 0}, DType::kF32);
        PaddedMat expected(s.rows, s.cols, s.padding);
        ref::rms_norm(host_, {expected, x, weight.mat().row<float>(0), 1e-5f});
        const DeviceMat device_x(x, in), device_weight(weight, DType::kF32);
        const DeviceMat actual(PaddedMat(s.rows, s.cols, s.padding), out);
        const auto* factors = static_cast<const float*>(device_weight.mat().data);
        run([&] { ops().rms_norm(ctx(), {actual, device_x, factors, 1e-5f}); });
        expect_near(actual, expected, tolerance(out, testing::kGpuRmsNorm));
        if (in != out) continue;
        run([&] { ops().rms_norm(ctx(), {device_x, device_x, factors, 1e-5f}); });
        expect_near(device_x, expected, tolerance(out, testing::kGpuRmsNorm));
      }
    }
  }
}

TEST_F(RowOps, EmbedAndGather) {
  for (const Shape& s : kShapes) {
    const ops::Weight table = testing::random_weight(rng_, DType::kBF16, 11, s.cols);
    const ops::Weight device_table = packed(table);
    const std::vector<int32_t> ids = random_ids(s.rows, 11);
    const DeviceArray<int32_t> device_ids(ids);
    PaddedMat expected(s.rows, s.cols, s.padding);
    ref::embed(host_, {expected, &table, ids.data(), 3.0f});
    const DeviceMat actual(PaddedMat(s.rows, s.cols, s.padding), DType::kF32);
    run([&] { ops().embed(ctx(), {actual, &device_table, device_ids.data(), 3.0f}); });
    expect_near(actual, expected, 0);

    const PaddedMat x = random({11, s.cols, s.padding}, DType::kBF16);
    const PaddedMat scales = random({1, s.rows, 0}, DType::kF32);
    ref::gather_rows(host_, {expected, x, ids.data(), scales.mat().row<float>(0)});
    const DeviceMat device_x(x, DType::kBF16), device_scales(scales, DType::kF32);
    run([&] {
      ops().gather_rows(ctx(), {actual, device_x, device_ids.data(),
                                static_cast<const float*>(device_scales.mat().data)});
    });
    expect_near(actual, expected, 0);
  }
}

TEST_F(RowOps, ActivationMulInPlace) {
  for (const DType dtype : kDTypes) {
    for (const auto activation : {ops::Activation::kSilu, ops::Activation::kGeluTanh}) {
      for (const Shape& s : kShapes) {
        PaddedMat gate = random(s, dtype);
        for (int64_t j = 0; j < s.cols; j += 3) gate.at(0, j) *= 32;  // saturates
        const PaddedMat up = random(s, dtype);
        PaddedMat expected(s.rows, s.cols, s.padding);
        ref::activation_mul(host_, {expected, gate, up, activation});
        const DeviceMat device_gate(gate, dtype), device_up(up, dtype);
        run([&] {
          ops().activation_mul(ctx(), {device_gate, device_gate, device_up, activation});
        });
        expect_near(device_gate, expected, tolerance(dtype, testing::kGeluTanhMul));
      }
    }
  }
}

TEST_F(RowOps, SoftcapAndAdd) {
  for (const Shape& s : kShapes) {
    PaddedMat x = random(s, DType::kF32);
    for (int64_t j = 0; j < s.cols; j += 2) x.at(0, j) *= 100;
    const DeviceMat device_x(x, DType::kF32);
    ref::softcap(host_, {x, 30.0f});
    run([&] { ops().softcap(ctx(), {device_x, 30.0f}); });
    expect_near(device_x, x, testing::kGpuSoftcap);
    for (const DType dtype : kDTypes) {
      const PaddedMat y = random(s, dtype);
      const DeviceMat device_sum(x, DType::kF32), device_y(y, dtype);
      PaddedMat expected = x;
      ref::add(host_, {expected, y});
      run([&] { ops().add(ctx(), {device_sum, device_y}); });
      expect_near(device_sum, expected, 0);
    }
  }
}

// Positions up to 131,071: where a float keeps three digits of the angle.
TEST_F(RowOps, RopeAndScaleQueries) {
  struct Heads {
    int64_t num, head_dim, rotary_dim;
  };
  for (const DType dtype : kDTypes) {
    for (const Heads& h : {Heads{1, 64, 64}, Heads{3, 128, 64}, Heads{5, 6, 4}, Heads{2, 24, 24}}) {
      const int64_t tokens = 7;
      const PaddedMat x = random({tokens, h.num * h.head_dim, 4}, dtype);
      std::vector<float> inv_freq;
      for (int64_t i = 0; i < h.rotary_dim; ++i) {  // two variants
        inv_freq.push_back(std::pow(10000.0f, -static_cast<float>(i % (h.rotary_dim / 2)) / 32));
      }
      const std::vector<int32_t> positions = {0, 1, 17, 4095, 100000, 131071, 3};
      const std::vector<int32_t> variants = {0, 1, 0, 1, 1, 0, 0};
      const DeviceArray<int32_t> device_positions(positions), device_variants(variants);
      const DeviceArray<float> device_freq(inv_freq);
      for (const bool many : {false, true}) {
        PaddedMat expected = x;
        ref::rope(host_, {expected, positions.data(), inv_freq.data(), h.head_dim, h.rotary_dim,
                          1.5f, many ? variants.data() : nullptr});
        const DeviceMat actual(x, dtype);
        run([&] {
          ops().rope(ctx(), {actual, device_positions.data(), device_freq.data(), h.head_dim,
                             h.rotary_dim, 1.5f, many ? device_variants.data() : nullptr});
        });
        expect_near(actual, expected, tolerance(dtype, testing::kGpuRope));
      }
      PaddedMat expected = x;
      ref::scale_queries(host_, {expected, positions.data(), 0.1f, 8192});
      const DeviceMat actual(x, dtype);
      run([&] { ops().scale_queries(ctx(), {actual, device_positions.data(), 0.1f, 8192}); });
      expect_near(actual, expected, tolerance(dtype, testing::kGpuRope));
    }
  }
}

TEST_F(RowOps, PrepareInput) {
  for (const DType dtype : kDTypes) {
    for (const Shape& s : kShapes) {
      const PaddedMat x = random(s, dtype);
      std::vector<int32_t> order = random_ids(s.cols, s.cols);
      const DeviceArray<int32_t> device_order(order);
      for (const auto rounding : {ops::InputRounding::kNone, ops::InputRounding::kStaticE4M3,
                                  ops::InputRounding::kDynamicE4M3}) {
        ops::InputForm form{order.data(), rounding, 0.01f, 128};
        PaddedMat expected(s.rows, s.cols, s.padding);
        ref::prepare_input(host_, {expected, x, form});
        form.order = device_order.data();
        const DeviceMat device_x(x, dtype);
        const DeviceMat actual(PaddedMat(s.rows, s.cols, s.padding), dtype);
        run([&] { ops().prepare_input(ctx(), {actual, device_x, form}); });
        expect_near(actual, expected, tolerance(dtype, testing::kGpuRope));
      }
    }
  }
}

TEST_F(RowOps, WriteKvTouchesNothingElse) {
  for (const DType dtype : kDTypes) {
    for (const DType kv_dtype : {DType::kBF16, DType::kF8E4M3}) {
      const int64_t heads = 3, head_dim = 20, block_size = 5, blocks = 4;
      const PaddedMat k = random({4, heads * head_dim, 4}, dtype);
      const PaddedMat v = random({4, heads * head_dim, 2}, dtype);
      const std::vector<int64_t> slots = {3, 7, 19, 0};
      const auto bytes =
          static_cast<size_t>(dtype_bytes(kv_dtype, blocks * heads * block_size * head_dim));
      DeviceArray<uint8_t> caches[2] = {DeviceArray<uint8_t>(bytes), DeviceArray<uint8_t>(bytes)};
      for (auto& cache : caches) cache.fill_bytes(0xFF);
      const DeviceArray<int64_t> device_slots(slots);
      const DeviceMat device_k(k, dtype), device_v(v, dtype);
      run([&] {
        ops().write_kv(ctx(), {{caches[0].data(), caches[1].data(), kv_dtype, blocks, block_size,
                                heads, head_dim},
                               device_k,
                               device_v,
                               device_slots.data()});
      });
      for (int part = 0; part < 2; ++part) {
        const PaddedMat& values = part == 0 ? k : v;
        std::vector<uint8_t> expected(bytes, 0xFF);
        for (int64_t t = 0; t < 4; ++t) {
          for (int64_t i = 0; i < heads * head_dim; ++i) {
            const int64_t row =
                (slots[t] / block_size * heads + i / head_dim) * block_size + slots[t] % block_size;
            const int64_t at = row * head_dim + i % head_dim;
            if (kv_dtype == DType::kF8E4M3) {
              expected[at] = float_to_e4m3(values.at(t, i));
            } else {
              const uint16_t half = float_to_bf16(values.at(t, i));
              std::memcpy(&expected[2 * at], &half, 2);
            }
          }
        }
        EXPECT_EQ(caches[part].download(), expected);
      }
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
