// Attention of the CUDA backend over mixed batches, and what leads to it, against `ref`.
#include "tests/gpu/ops_harness.h"
#include "tests/kernels/paged_batch.h"
#include "tests/tolerance.h"

namespace octavo::backends::cuda {
namespace {

using octavo::testing::Heads;
using octavo::testing::Mask;
using octavo::testing::PagedBatch;
using octavo::testing::relative_error;
using octavo::testing::Sequence;

struct Implementation {
  const char* name;
  int only_sm;  // 0: all
  bool any_shape;
};
constexpr Implementation kImplementations[] = {
    {"flash_attention_3", 90, false}, {"flash_attention_2", 0, false}, {"eager", 0, true}};

// What an AttentionArgs on the host points to, in device memory.
class DeviceAttention {
 public:
  explicit DeviceAttention(const ops::AttentionArgs& host) {
    const ops::PagedKv& kv = host.kv;
    const int64_t bytes =
        dtype_bytes(kv.dtype, kv.num_blocks * kv.num_kv_heads * kv.block_size * kv.head_dim);
    k_ = copy<uint8_t>(kv.k, bytes);
    v_ = copy<uint8_t>(kv.v, bytes);
    cu_seqlens_ = copy<int32_t>(host.batch.cu_seqlens_q, host.batch.num_seqs + 1);
    seq_lens_ = copy<int32_t>(host.batch.seq_lens, host.batch.num_seqs);
    table_ =
        copy<int32_t>(host.batch.block_table, host.batch.num_seqs * host.batch.block_table_stride);
    PaddedMat q(host.q.rows, host.q.cols, 0);
    for (int64_t t = 0; t < q.mat().rows; ++t) {
      for (int64_t i = 0; i < q.mat().cols; ++i) q.at(t, i) = host.q.row<float>(t)[i];
    }
    q_ = std::make_unique<DeviceMat>(q, DType::kBF16);
    out_ = std::make_unique<DeviceMat>(PaddedMat(host.q.rows, host.q.cols, 0), DType::kBF16);
    args_ = host;
    args_.q = *q_;
    args_.out = *out_;
    args_.kv.k = k_.data();
    args_.kv.v = v_.data();
    args_.batch.cu_seqlens_q = cu_seqlens_.data();
    args_.batch.seq_lens = seq_lens_.data();
    args_.batch.block_table = table_.data();
    for (int64_t s = 0; s < host.batch.num_seqs; ++s) {
      const int64_t rows = host.batch.cu_seqlens_q[s + 1] - host.batch.cu_seqlens_q[s];
      if (rows > ops::kMaxShortRows) break;
      ++args_.batch.num_short_seqs;
      args_.batch.max_short_rows = std::max(args_.batch.max_short_rows, rows);
    }
  }
  const ops::AttentionArgs& args() const { return args_; }
  PaddedMat out() const { return out_->download(); }

 private:
  template <typename T>
  static DeviceArray<T> copy(const void* from, int64_t count) {
    const auto* values = static_cast<const T*>(from);
    return DeviceArray<T>(std::vector<T>(values, values + count));
  }

  DeviceArray<uint8_t> k_, v_;
  DeviceArray<int32_t> cu_seqlens_, seq_lens_, table_;
  std::unique_ptr<DeviceMat> q_, out_;
  ops::AttentionArgs args_;
};

class AttentionOps : public OpsTest, public ::testing::WithParamInterface<Implementation> {
 protected:
  void SetUp() override {
    OpsTest::SetUp();
    if (IsSkipped()) return;
    const int only_sm = GetParam().only_sm;
    if (only_sm != 0 && backend_.compute_capability != only_sm) GTEST_SKIP() << "another GPU";
    backend_.ops.attention = attention_fn({GetParam().name, ""});
  }

  void expect_right(const Heads& heads, int64_t block_size, const std::vector<Sequence>& sequences,
                    const Mask& mask = {}) {
    SCOPED_TRACE(::testing::Message()
                 << heads.num_heads << "/" << heads.num_kv_heads << " heads of " << heads.head_dim
                 << ", window " << mask.window << ", chunk " << mask.chunk << ", softcap "
                 << mask.softcap);
    PagedBatch batch(rng_, DType::kBF16, heads, block_size, sequences);
    batch.set_mask(mask, false);  // tiles begin before what is seen
    PaddedMat expected(batch.num_tokens(), batch.cols());
    const ops::AttentionArgs host = batch.args(expected, heads.num_heads);
    for (int64_t t = 0; t < host.q.rows; ++t) {
      for (int64_t i = 0; i < host.q.cols; ++i) {
        float& value = host.q.row<float>(t)[i];
        value = bf16_to_float(float_to_bf16(value));
      }
    }
    ops::ExecContext unused;
    ref::attention(unused, host);
    const DeviceAttention device(host);
    run([&] { ops().attention(ctx(), device.args()); });
    EXPECT_LE(relative_error(device.out(), expected), testing::kGpuAttention);
  }

  Rng rng_{3};
};

const std::vector<Sequence> kMixed = {{300, 1}, {7, 7}, {520, 70}, {1, 1}, {257, 2}, {256, 1}};
const std::vector<Sequence> kDecodes = {{300, 1}, {1, 1}, {2000, 1}, {17, 1}};
const std::vector<Sequence> kPrompts = {{9, 9}, {300, 300}, {65, 40}};

TEST_P(AttentionOps, AgreesWithRef) {
  for (const Heads& heads :
       {Heads{4, 2, 64}, Heads{8, 1, 128}, Heads{3, 3, 128}, Heads{4, 4, 256}}) {
    for (const auto& sequences : {kMixed, kDecodes, kPrompts}) expect_right(heads, 16, sequences);
  }
}

TEST_P(AttentionOps, MasksAndCaps) {
  for (const Mask& mask : {Mask{1, 0, 0}, Mask{100, 0, 0}, Mask{300, 0, 30}, Mask{0, 64, 5},
                           Mask{0, 200, 0}, Mask{4096, 4096, 2}}) {
    for (const auto& sequences : {kMixed, kDecodes, kPrompts}) {
      expect_right({4, 2, 64}, 32, sequences, mask);
    }
  }
}

TEST_P(AttentionOps, AnyShape) {
  if (!GetParam().any_shape) GTEST_SKIP() << "not this one";
  for (const int64_t block_size : {1, 3, 17}) expect_right({6, 2, 20}, block_size, kMixed);
}

// A plan serves all layers of a step, and no other step.
TEST_P(AttentionOps, PlansAreOfOneStep) {
  const Heads heads{4, 2, 64};
  for (const uint64_t step : {101, 102}) {
    const auto sequences = step == 101 ? kMixed : kPrompts;
    PagedBatch batch(rng_, DType::kBF16, heads, 16, sequences);
    PaddedMat expected(batch.num_tokens(), batch.cols());
    const DeviceAttention device(batch.args(expected, heads.num_heads));
    ops::AttentionArgs args = device.args();
    run([&] { ops().attention(ctx(), args); });
    const PaddedMat once = device.out();
    args.batch.step_id = step;
    for (int layer = 0; layer < 3; ++layer) run([&] { ops().attention(ctx(), args); });
    EXPECT_TRUE(testing::same_bits(device.out(), once));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionOps, ::testing::ValuesIn(kImplementations),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace octavo::backends::cuda
