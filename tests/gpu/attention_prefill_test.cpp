// The prefill kernels against the fp32 reference: every head dimension, ragged batches, contiguous
// and paged keys, masks, and what must be equal bit for bit. Skips without a Hopper GPU.
#include "backends/cuda/sm90/attention_prefill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/gpu/attention_args.h"

namespace octavo::backends::cuda {
namespace {

void run(const AttentionInputs& inputs, const AttentionOutputs& outputs) {
  PrefillArgs args = prefill_args(inputs, outputs);
  DeviceArray<uint8_t> workspace(prefill_workspace_bytes(args));
  workspace.fill_bytes(0xFF);
  const Status planned = plan_prefill(args, workspace.data(), nullptr);
  ASSERT_TRUE(planned.ok()) << planned.message();
  const Status ran = prefill_attention(args, workspace.data(), nullptr);
  ASSERT_TRUE(ran.ok()) << ran.message();
  check_cuda(cudaDeviceSynchronize(), "prefill_attention");
}

void expect_right(const AttentionCase& shape) {
  SCOPED_TRACE(shape.describe());
  const AttentionInputs inputs(shape);
  const AttentionOutputs outputs(inputs);
  run(inputs, outputs);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(judge_attention(inputs, outputs), "");
}

AttentionCase make_case(std::vector<int> q_lens, std::vector<int> kv_lens, int num_heads,
                        int num_kv_heads, int head_dim, int block_size) {
  AttentionCase shape;
  shape.q_lens = std::move(q_lens);
  shape.kv_lens = std::move(kv_lens);
  shape.num_heads = num_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = head_dim;
  shape.block_size = block_size;
  return shape;
}

class AttentionPrefill : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_hopper()) GTEST_SKIP() << "no GPU of sm_90 here";
  }
};

// One tile, then one tile and a bit: what to look at first when all else fails.
TEST_F(AttentionPrefill, Small) {
  for (const int head_dim : {64, 128, 256}) {
    for (const int window_right : {-1, 0}) {
      for (const int length : {64, 128, 200}) {
        AttentionCase shape = make_case({length}, {length}, 1, 1, head_dim, 0);
        shape.window_right = window_right;
        expect_right(shape);
      }
    }
  }
}

TEST_F(AttentionPrefill, Dense) {
  expect_right(make_case({4096, 4096, 4096, 4096}, {4096, 4096, 4096, 4096}, 32, 8, 128, 0));
}

TEST_F(AttentionPrefill, FullWithUnequalLengths) {
  for (const int head_dim : {64, 128, 256}) {
    AttentionCase shape = make_case({113, 1023, 1024}, {203, 1024, 1023}, 6, 2, head_dim, 0);
    shape.window_right = -1;
    expect_right(shape);
  }
}

TEST_F(AttentionPrefill, MoreQueriesThanKeys) {
  for (const int head_dim : {64, 128, 256}) {
    expect_right(make_case({256, 640}, {512, 128}, 6, 1, head_dim, 0));
  }
}

TEST_F(AttentionPrefill, RaggedLengths) {
  const std::vector<int> lengths = {1, 0, 7, 128, 129, 2000, 8191, 3};
  expect_right(make_case(lengths, lengths, 32, 8, 128, 0));
  expect_right(make_case(lengths, lengths, 32, 8, 128, 16));
}

TEST_F(AttentionPrefill, CrossLengthsAndNoKeys) {
  for (const int block_size : {0, 16}) {
    expect_right(make_case({5, 1, 64, 1}, {5000, 17, 0, 0}, 32, 8, 128, block_size));
    expect_right(make_case({5, 1, 64, 1}, {0, 0, 0, 0}, 32, 8, 128, block_size));
  }
}

TEST_F(AttentionPrefill, ManySequences) {
  std::vector<int> lengths(1500);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<int>(i * 37 % 64);
  expect_right(make_case(lengths, lengths, 32, 8, 128, 0));
}

TEST_F(AttentionPrefill, GroupSizes) {
  for (const auto& [heads, kv_heads] :
       {std::pair{2, 1}, {3, 1}, {5, 1}, {12, 1}, {16, 1}, {40, 1}, {64, 1}, {40, 8}, {8, 8}}) {
    for (const int head_dim : {64, 128}) {
      expect_right(make_case({150, 33}, {300, 33}, heads, kv_heads, head_dim, 16));
    }
  }
}

// A7, A8: chunks on a cached prefix, with the same bits whatever the block size.
TEST_F(AttentionPrefill, CachedPrefixAllBlockSizes) {
  for (const int head_dim : {64, 128, 256}) {
    std::vector<uint16_t> first;
    for (const int block_size : {16, 32, 64, 128, 256, 0}) {
      if (head_dim == 256 && block_size == 0) continue;  // another kernel
      const AttentionCase shape = make_case({512, 100}, {8193, 100}, 32, 8, head_dim, block_size);
      SCOPED_TRACE(shape.describe());
      const AttentionInputs inputs(shape);
      const AttentionOutputs outputs(inputs);
      run(inputs, outputs);
      ASSERT_EQ(judge_attention(inputs, outputs), "");
      if (first.empty()) first = outputs.download_out();
      EXPECT_TRUE(outputs.download_out() == first) << "other bits";
    }
  }
}

TEST_F(AttentionPrefill, MixedBatch) {
  std::vector<int> q_lens = {2048, 77, 1}, kv_lens = {2048, 500, 3};
  for (int i = 0; i < 120; ++i) {
    q_lens.push_back(1);
    kv_lens.push_back(1 + i * 61 % 7000);
  }
  expect_right(make_case(q_lens, kv_lens, 32, 8, 128, 16));
}

// A row's bits depend on nothing else in the batch, nor on how the prompt was cut.
TEST_F(AttentionPrefill, SameBitsWhateverTheBatch) {
  for (const int head_dim : {64, 128, 256}) {
    constexpr int kLength = 1000;
    const AttentionCase whole = make_case({kLength}, {kLength}, 8, 2, head_dim, 16);
    const AttentionInputs whole_inputs(whole);
    const AttentionOutputs whole_outputs(whole_inputs);
    run(whole_inputs, whole_outputs);
    const std::vector<uint16_t> expected = whole_outputs.download_out();
    const size_t row = 8 * static_cast<size_t>(head_dim);
    // The harness makes the values of query row i from i: a chunk's queries must be put in place.
    for (const int chunk : {1, 37, 333, 999}) {
      const AttentionOutputs outputs(whole_inputs);
      PrefillArgs args = prefill_args(whole_inputs, outputs);
      DeviceArray<int32_t> cu(std::vector<int32_t>{0, chunk});
      args.q = static_cast<const uint16_t*>(args.q) + (kLength - chunk) * row;
      args.cu_seqlens_q = cu.data();
      args.num_tokens = chunk;
      args.lse = nullptr;
      DeviceArray<uint8_t> workspace(prefill_workspace_bytes(args));
      workspace.fill_bytes(0xFF);
      ASSERT_TRUE(plan_prefill(args, workspace.data(), nullptr).ok());
      ASSERT_TRUE(prefill_attention(args, workspace.data(), nullptr).ok());
      const std::vector<uint16_t> out = outputs.download_out();
      EXPECT_TRUE(std::equal(out.begin(), out.begin() + static_cast<ptrdiff_t>(chunk * row),
                             expected.end() - static_cast<ptrdiff_t>(chunk * row)))
          << "head_dim " << head_dim << ", last " << chunk << " rows";
    }
    const AttentionCase batch =
        make_case({kLength, 5, 640, 1}, {kLength, 900, 700, 4000}, 8, 2, head_dim, 16);
    const AttentionInputs batch_inputs(batch);
    const AttentionOutputs batch_outputs(batch_inputs);
    run(batch_inputs, batch_outputs);
    const std::vector<uint16_t> out = batch_outputs.download_out();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin())) << head_dim;
  }
}

TEST_F(AttentionPrefill, PoolBeyondFourGigabytes) {
  AttentionCase shape = make_case({300, 20}, {2000, 20}, 32, 8, 128, 16);
  shape.min_num_blocks = (int64_t{1} << 32) / (16 * 8 * 128 * 2) + 1000;
  expect_right(shape);
}

TEST_F(AttentionPrefill, Windows) {
  for (const int window : {0, 1, 127, 128, 1023, 4096}) {
    for (const int block_size : {0, 16}) {
      AttentionCase shape =
          make_case({100, 1000, 300, 9}, {100, 1000, 10000, 5000}, 8, 2, 128, block_size);
      shape.window_left = window;
      expect_right(shape);
    }
  }
  AttentionCase both_sides = make_case({1000, 300}, {1000, 700}, 8, 2, 64, 0);
  both_sides.window_left = 200;
  both_sides.window_right = 77;
  expect_right(both_sides);
}

TEST_F(AttentionPrefill, Chunks) {
  for (const int length : {8191, 8192, 8193, 16383, 16385}) {
    AttentionCase shape = make_case({300, 700}, {length, 8400}, 40, 8, 128, 16);
    shape.chunk = 8192;
    expect_right(shape);
  }
  for (const int chunk : {1, 100, 100000}) {
    AttentionCase shape = make_case({1000}, {1500}, 8, 2, 128, 16);
    shape.chunk = chunk;
    expect_right(shape);
  }
}

TEST_F(AttentionPrefill, SinksAndSoftcap) {
  AttentionCase sinks = make_case({300, 1, 1000}, {300, 400, 1500}, 64, 8, 64, 16);
  sinks.window_left = 127;
  sinks.sinks = true;
  expect_right(sinks);
  for (const int head_dim : {64, 128, 256}) {
    AttentionCase softcap = make_case({300, 1, 1000}, {300, 400, 1500}, 16, 8, head_dim, 16);
    softcap.softcap = 50.0f;
    expect_right(softcap);
  }
}

// The device hands out work in another order each time; nothing of it may show.
TEST_F(AttentionPrefill, RepeatsAreEqual) {
  const std::vector<int> lengths = {1, 0, 7, 128, 129, 2000, 511, 3};
  const AttentionInputs inputs(make_case(lengths, lengths, 8, 2, 128, 16));
  const AttentionOutputs outputs(inputs);
  PrefillArgs args = prefill_args(inputs, outputs);
  args.lse = nullptr;
  DeviceArray<uint8_t> workspace(prefill_workspace_bytes(args));
  workspace.fill_bytes(0xFF);
  std::vector<uint16_t> first;
  for (int repeat = 0; repeat < 200; ++repeat) {
    ASSERT_TRUE(plan_prefill(args, workspace.data(), nullptr).ok());
    ASSERT_TRUE(prefill_attention(args, workspace.data(), nullptr).ok());
    const std::vector<uint16_t> out = outputs.download_out();
    if (first.empty()) first = out;
    ASSERT_TRUE(out == first) << "repeat " << repeat;
  }
}

TEST(AttentionPrefillArguments, RefusesWhatItCannotDo) {
  PrefillArgs args;
  args.num_heads = 8;
  args.num_kv_heads = 2;
  args.head_dim = 96;
  EXPECT_EQ(plan_prefill(args, nullptr, nullptr).code(), StatusCode::kUnsupported);
  args.head_dim = 128;
  EXPECT_EQ(plan_prefill(args, nullptr, nullptr).code(), StatusCode::kInvalidArgument);
  const int32_t lengths[2] = {0, 0};
  args.cu_seqlens_k = lengths;
  EXPECT_TRUE(plan_prefill(args, nullptr, nullptr).ok()) << "no tokens, nothing to do";
  args.num_kv_heads = 3;
  EXPECT_EQ(plan_prefill(args, nullptr, nullptr).code(), StatusCode::kInvalidArgument);
  args.num_kv_heads = 2;
  args.block_table = lengths;
  args.seq_lens = lengths;
  args.num_blocks = 1;
  for (const int block_size : {0, 8, 24, 512}) {
    args.block_size = block_size;
    EXPECT_EQ(plan_prefill(args, nullptr, nullptr).code(), StatusCode::kUnsupported) << block_size;
  }
  args.block_size = 16;
  EXPECT_TRUE(plan_prefill(args, nullptr, nullptr).ok());
  args.scale = 0;
  EXPECT_EQ(plan_prefill(args, nullptr, nullptr).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace octavo::backends::cuda
