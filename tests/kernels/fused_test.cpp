// The fused composites of the CPU backend give the bits of the sequences of primitives, for every
// instruction set and weight type, in rows and packed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "backends/cpu/device_cpu.h"
#include "backends/cpu/pack_lanes.h"
#include "backends/select.h"
#include "kernel_test_util.h"

namespace octavo::testing {
namespace {

using backends::Arithmetic;
using backends::Backend;
using ops::QkNorm;

constexpr int64_t kRowCounts[] = {1, 2, 5, 8, 9, 40, 131};

struct FusedCase {
  std::string_view isa;
  DType dtype;
  DType other;  // of the values and of the down projection
};

std::vector<FusedCase> fused_cases() {
  std::vector<FusedCase> cases;
  for (const std::string_view isa : backends::cpu::kIsaNames) {
    if (!backends::cpu::isa_supported(*backends::cpu::parse_isa(isa))) continue;
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (dtype_traits(dtype).quantized) cases.push_back({isa, dtype, dtype});
    }
    cases.push_back({isa, DType::kQ4_K, DType::kQ6_K});
    cases.push_back({isa, DType::kQ4_0, DType::kQ8_0});
    cases.push_back({isa, DType::kQ8_0, DType::kBF16});
    cases.push_back({isa, DType::kBF16, DType::kQ8_0});
    cases.push_back({isa, DType::kF32, DType::kF32});
  }
  return cases;
}

std::string fused_name(const ::testing::TestParamInfo<FusedCase>& info) {
  return std::string(info.param.isa) + "_" + std::string(dtype_traits(info.param.dtype).name) +
         "_" + std::string(dtype_traits(info.param.other).name);
}

// A matrix of values without padding.
struct DenseMat {
  DenseMat(int64_t rows, int64_t cols)
      : values(rows * cols, kNan), mat(values.data(), DType::kF32, rows, cols) {}
  DenseMat(const DenseMat&) = delete;
  DenseMat& operator=(const DenseMat&) = delete;

  std::vector<float> values;
  ops::Mat mat;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Fused : public ::testing::TestWithParam<FusedCase> {
 protected:
  Fused() {
    const Result<Backend> backend = backends::open_cpu(Arithmetic::kAuto, GetParam().isa);
    EXPECT_TRUE(backend.ok());
    fused_ = plain_ = backend->ops;
    plain_.norm_qkv_rope_write = ops::norm_qkv_rope_write;
    plain_.linear_residual = ops::linear_residual;
    plain_.norm_gated_mlp = ops::norm_gated_mlp;
  }

  // All types allow a multiple of 256; types of smaller blocks are to see other widths too.
  int64_t width(int64_t cols) const {
    const int64_t block = std::max(dtype_traits(GetParam().dtype).block_size,
                                   dtype_traits(GetParam().other).block_size);
    const int64_t whole = std::max<int64_t>(block, 32);
    return (cols + whole - 1) / whole * whole;
  }

  // Packed as the backend packs it, or as it lies in a file.
  ops::Weight weight(Rng& rng, DType dtype, int64_t rows, int64_t cols, bool packed) const {
    const ops::Weight w = random_weight(rng, dtype, rows, cols);
    if (!packed) return w;
    const Tensor tensor{"w", dtype, {rows, cols}, w.data, w.owner};
    ops::PackContext ctx{backends::cpu::cpu_device(), nullptr, nullptr};
    return fused_.pack_weight(fused_, ctx, tensor, {}).value();
  }

  bool fuses(std::initializer_list<DType> dtypes) const {
    constexpr std::array kAsFloats = {DType::kNVFP4, DType::kQ1_0, DType::kQ2_0};
    return std::all_of(dtypes.begin(), dtypes.end(), [&](DType dtype) {
      return dtype_traits(dtype).quantized &&
             std::find(kAsFloats.begin(), kAsFloats.end(), dtype) == kAsFloats.end();
    });
  }

  ops::Ops fused_, plain_;
};

TEST_P(Fused, LinearResidual) {
  Rng rng(1);
  for (const int64_t rows : kRowCounts) {
    const int64_t outputs = random_int(rng, 1, 90);
    const int64_t cols = width(random_int(rng, 1, 900));
    const ops::Weight w = weight(rng, GetParam().dtype, outputs, cols, rows % 2 == 1);
    const PaddedMat y = PaddedMat::random(rng, rows, cols, 3);
    const PaddedMat bias = PaddedMat::random(rng, 2, outputs);
    PaddedMat expected = PaddedMat::random(rng, rows, outputs, 7);
    PaddedMat actual = expected;
    PaddedMat scratch(rows, outputs);
    PaddedMat untouched(rows, outputs);
    ops::LinearResidualArgs args = {expected, y, &w,
                                    rows % 3 == 0 ? bias.mat().row<float>(0) : nullptr, scratch};
    const bool normed = rows == 5;
    if (normed) args.norm_weight = bias.mat().row<float>(1);
    Context single(1, rows, std::max(cols, outputs));
    Context context(2, rows, std::max(cols, outputs));
    plain_.linear_residual(plain_, *single, args);
    args.x = actual;
    args.scratch = untouched;
    fused_.linear_residual(fused_, *context, args);
    ASSERT_TRUE(same_bits(expected, actual)) << rows << " x " << cols << " x " << outputs;
    ASSERT_TRUE(actual.padding_is_untouched());
    if (fuses({GetParam().dtype}) && !normed) {
      ASSERT_TRUE(std::isnan(untouched.at(0, 0)));
    }
  }
}

TEST_P(Fused, NormGatedMlp) {
  Rng rng(2);
  for (const int64_t rows : kRowCounts) {
    const int64_t hidden = width(random_int(rng, 1, 700));
    const int64_t inter = width(random_int(rng, 1, 900));
    const bool packed = rows % 2 == 1;
    const ops::Weight gate = weight(rng, GetParam().dtype, inter, hidden, packed);
    const ops::Weight up = weight(rng, GetParam().dtype, inter, hidden, packed);
    const ops::Weight down = weight(rng, GetParam().other, hidden, inter, packed);
    const PaddedMat vectors = PaddedMat::random(rng, 5, std::max(hidden, inter));
    const auto vector = [&](int i) { return vectors.mat().row<float>(i); };
    PaddedMat expected = PaddedMat::random(rng, rows, hidden, 7);
    PaddedMat actual = expected;
    PaddedMat normed(rows, hidden), gates(rows, inter), ups(rows, inter), untouched(rows, inter);
    ops::NormGatedMlpArgs args = {expected, vector(0), 1e-5f, &gate, &up, &down};
    if (rows == 2) args.norm_weight = nullptr;
    if (rows % 3 == 2) {
      args.gate_bias = vector(1);
      args.up_bias = vector(2);
      args.down_bias = vector(3);
    }
    args.normed = normed;
    args.gate = gates;
    args.up = ups;
    if (rows == 8) args.activation = ops::Activation::kGeluTanh;
    if (rows >= 9) args.post_norm_weight = vector(4);
    Context single(1, rows, std::max(hidden, inter));
    Context context(2, rows, std::max(hidden, inter));
    plain_.norm_gated_mlp(plain_, *single, args);
    args.x = actual;
    args.up = untouched;
    fused_.norm_gated_mlp(fused_, *context, args);
    ASSERT_TRUE(same_bits(expected, actual)) << rows << " x " << hidden << " x " << inter;
    ASSERT_TRUE(actual.padding_is_untouched());
    if (fuses({GetParam().dtype, GetParam().other})) {
      ASSERT_TRUE(std::isnan(untouched.at(0, 0)));
    }
  }
}

TEST_P(Fused, NormQkvRopeWrite) {
  constexpr int64_t kHeadDim = 20, kHeads = 5, kKvHeads = 3, kBlockSize = 16;
  constexpr int64_t kQueries = kHeads * kHeadDim, kKeys = kKvHeads * kHeadDim;
  Rng rng(3);
  for (const int64_t rows : kRowCounts) {
    const int64_t hidden = width(random_int(rng, 1, 700));
    const bool packed = rows % 2 == 1;
    const ops::Weight q = weight(rng, GetParam().dtype, kQueries, hidden, packed);
    const ops::Weight k = weight(rng, GetParam().dtype, kKeys, hidden, packed);
    const ops::Weight v = weight(rng, GetParam().other, kKeys, hidden, packed);
    const PaddedMat x = PaddedMat::random(rng, rows, hidden, 7);
    const PaddedMat vectors = PaddedMat::random(rng, 6, std::max(hidden, kQueries));
    const std::vector<float> frequencies(kHeadDim / 2, 0.25f);
    const auto vector = [&](int i) { return vectors.mat().row<float>(i); };
    const int64_t blocks = (rows + kBlockSize - 1) / kBlockSize;
    std::vector<int32_t> positions(rows);
    std::iota(positions.begin(), positions.end(), 3);
    std::vector<int64_t> slots(rows);
    std::iota(slots.rbegin(), slots.rend(), 0);

    ops::NormQkvRopeWriteArgs args = {x, vector(0), 1e-5f, &q, &k, &v};
    if (rows == 2) args.norm_weight = nullptr;
    if (rows % 3 == 2) {
      args.q_bias = vector(1);
      args.k_bias = vector(2);
      args.v_bias = vector(3);
    }
    if (rows == 8) args.qk_norm = QkNorm::kPerHead;
    if (rows == 9) args.qk_norm = QkNorm::kAllHeads;
    args.q_norm_weight = vector(4);
    args.k_norm_weight = vector(5);
    args.inv_freq = frequencies.data();
    args.rotary_dim = rows == 40 ? 0 : kHeadDim;
    args.batch.num_tokens = rows;
    args.batch.positions = positions.data();
    args.batch.slot_mapping = slots.data();
    std::vector<float> results[2];
    for (const bool fused : {false, true}) {
      DenseMat out_q(rows, kQueries), out_k(rows, kKeys), out_v(rows, kKeys);
      DenseMat keys(blocks * kBlockSize, kKeys), values(blocks * kBlockSize, kKeys);
      PaddedMat normed(rows, hidden);
      args.q = out_q.mat;
      args.k = out_k.mat;
      args.v = out_v.mat;
      args.normed = normed;
      args.kv = {keys.values.data(),
                 values.values.data(),
                 DType::kF32,
                 blocks,
                 kBlockSize,
                 kKvHeads,
                 kHeadDim};
      Context context(fused ? 2 : 1, rows, std::max(hidden, kQueries));
      const ops::Ops& ops = fused ? fused_ : plain_;
      ops.norm_qkv_rope_write(ops, *context, args);
      for (const DenseMat* part : {&out_q, &keys, &values}) {
        results[fused ? 1 : 0].insert(results[fused ? 1 : 0].end(), part->values.begin(),
                                      part->values.end());
      }
    }
    ASSERT_TRUE(same_bits(results[0], results[1])) << rows << " x " << hidden;
    ASSERT_TRUE(std::isfinite(results[0][0]));
  }
}

TEST_P(Fused, IsChosen) {
  EXPECT_NE(fused_.norm_qkv_rope_write, plain_.norm_qkv_rope_write);
  EXPECT_NE(fused_.linear_residual, plain_.linear_residual);
  EXPECT_NE(fused_.norm_gated_mlp, plain_.norm_gated_mlp);
}

INSTANTIATE_TEST_SUITE_P(Table, Fused, ::testing::ValuesIn(fused_cases()), fused_name);

}  // namespace
}  // namespace octavo::testing
