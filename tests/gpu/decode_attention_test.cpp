// Paged decode attention against the fp32 reference: lengths, groups, masks, formats; and what must
// hold bit for bit. Each property runs for Hopper's kernel and for the portable one.
#include "backends/cuda/attention_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/gpu/attention_args.h"

namespace octavo::backends::cuda {
namespace {

class Workspace {
 public:
  explicit Workspace(const DecodeArgs& args) : memory_(decode_workspace_bytes(args)) {
    memory_.fill_bytes(0xFF);  // a plan must not count on zeros
  }
  void* data() const { return memory_.data(); }

 private:
  DeviceArray<uint8_t> memory_;
};

class DecodeAttentionTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() ? !has_gpu() : !has_hopper()) GTEST_SKIP() << "no such GPU here";
  }

  DecodeLaunch launch() const { return {.overlap_previous = false, .portable = GetParam()}; }

  void run(const DecodeArgs& args, int times = 1) const {
    const Workspace workspace(args);
    ASSERT_TRUE(plan_decode(args, workspace.data(), nullptr).ok());
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(decode_attention(args, workspace.data(), nullptr, launch()).ok());
    }
    check_cuda(cudaDeviceSynchronize(), "decode_attention");
  }

  void expect_right(const AttentionCase& shape) const {
    const AttentionInputs inputs(shape);
    const AttentionOutputs outputs(inputs);
    run(decode_args(inputs, outputs), 2);  // the second launch finds the counters of the first
    EXPECT_EQ(judge_attention(inputs, outputs), "") << shape.describe();
  }

  // Output rows of the sequences, bit for bit.
  std::vector<uint16_t> bits(const AttentionInputs& inputs, DecodeSplits splits = {}) const {
    const AttentionOutputs outputs(inputs);
    DecodeArgs args = decode_args(inputs, outputs);
    args.splits = splits;
    run(args);
    return outputs.download_out();
  }
};

std::vector<int> ones(size_t count) {
  return std::vector<int>(count, 1);
}

std::vector<int> random_lengths(int count, int low, int high, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(low + static_cast<int>(rng() % static_cast<uint64_t>(high - low + 1)));
  }
  return lengths;
}

TEST_P(DecodeAttentionTest, Lengths) {
  for (const int length :
       {1, 2, 15, 16, 17, 31, 33, 127, 128, 129, 255, 256, 257, 511, 1000, 2048, 4097, 131072}) {
    expect_right({.q_lens = {1}, .kv_lens = {length}});
  }
}

TEST_P(DecodeAttentionTest, EveryShortLength) {
  std::vector<int> lengths(300);
  std::iota(lengths.begin(), lengths.end(), 1);
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    for (const int head_dim : {64, 128, 256}) {
      expect_right({.q_lens = ones(lengths.size()),
                    .kv_lens = lengths,
                    .num_heads = 4,
                    .num_kv_heads = 2,
                    .head_dim = head_dim,
                    .kv_dtype = dtype});
    }
  }
}

TEST_P(DecodeAttentionTest, EmptyAndCrossedLengths) {
  expect_right({.q_lens = {5, 1, 8, 1, 0, 3}, .kv_lens = {5000, 17, 3, 0, 40, 0}});
  expect_right({.q_lens = {1}, .kv_lens = {0}});
  expect_right({.q_lens = {2, 1}, .kv_lens = {600, 9}, .window_right = -1});
}

TEST_P(DecodeAttentionTest, Groups) {
  for (const int group : {1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 40}) {
    expect_right({.q_lens = ones(4),
                  .kv_lens = {777, 64, 3000, 1},
                  .num_heads = 2 * group,
                  .num_kv_heads = 2});
  }
  expect_right({.q_lens = ones(2), .kv_lens = {5000, 100}, .num_heads = 64, .num_kv_heads = 1});
  expect_right({.q_lens = ones(2),
                .kv_lens = {900, 2100},
                .num_heads = 12,
                .num_kv_heads = 1,
                .head_dim = 256});
}

TEST_P(DecodeAttentionTest, BlockSizesGiveTheSameBits) {
  std::vector<uint16_t> first;
  for (const int block_size : {16, 32, 48, 64, 128, 256}) {
    const AttentionCase shape = {
        .q_lens = {1, 2, 1}, .kv_lens = {4111, 700, 33}, .block_size = block_size};
    expect_right(shape);
    const std::vector<uint16_t> out = bits(AttentionInputs(shape));
    if (first.empty()) first = out;
    EXPECT_EQ(out, first) << "blocks of " << block_size;
  }
}

TEST_P(DecodeAttentionTest, SpeculatedTokens) {
  for (const int tokens : {2, 3, 4, 8}) {
    expect_right(
        {.q_lens = std::vector<int>(6, tokens), .kv_lens = {tokens, 16, 129, 500, 5001, 20000}});
  }
  expect_right({.q_lens = {8, 1, 3}, .kv_lens = {1000, 2000, 3000}, .num_heads = 64});
  expect_right({.q_lens = {8, 1},
                .kv_lens = {300, 4000},
                .num_heads = 8,
                .num_kv_heads = 4,
                .head_dim = 256});
}

TEST_P(DecodeAttentionTest, LeavesPrefillAlone) {
  const AttentionCase shape = {.q_lens = {1, 64, 2, 9}, .kv_lens = {500, 64, 300, 40}};
  const AttentionInputs inputs(shape);
  const AttentionOutputs outputs(inputs);
  DecodeArgs args = decode_args(inputs, outputs);
  args.max_q_len = 2;
  run(args);
  const std::vector<uint16_t> out = outputs.download_out();
  const size_t row = 32 * 128;
  EXPECT_NE(out[0], 0xFFFF);
  EXPECT_EQ(out[row], 0xFFFF);
  EXPECT_EQ(out[64 * row], 0xFFFF);
  EXPECT_NE(out[65 * row], 0xFFFF);
  EXPECT_NE(out[67 * row - 1], 0xFFFF);
  EXPECT_EQ(out[67 * row], 0xFFFF);
}

TEST_P(DecodeAttentionTest, Windows) {
  for (const int window : {0, 1, 127, 1023, 4095}) {
    expect_right({.q_lens = {1, 1, 4, 1, 1, 2},
                  .kv_lens = {100, 129, 1030, 4096, 4100, 10000},
                  .window_left = window});
  }
}

TEST_P(DecodeAttentionTest, Chunks) {
  expect_right({.q_lens = {1, 1, 1, 1, 1, 8},
                .kv_lens = {8191, 8192, 8193, 16383, 16385, 8196},
                .num_heads = 40,
                .chunk = 8192});
  expect_right({.q_lens = {1, 3, 1, 5}, .kv_lens = {99, 101, 200, 4003}, .chunk = 100});
  expect_right({.q_lens = {2, 1}, .kv_lens = {70, 17}, .chunk = 1});
  const AttentionCase causal = {.q_lens = {2, 1}, .kv_lens = {3000, 17}};
  AttentionCase chunked = causal;
  chunked.chunk = 5000;
  EXPECT_EQ(bits(AttentionInputs(causal)), bits(AttentionInputs(chunked)));
}

TEST_P(DecodeAttentionTest, SinksAndSoftcap) {
  expect_right({.q_lens = ones(4),
                .kv_lens = {5, 127, 128, 6000},
                .num_heads = 64,
                .head_dim = 64,
                .window_left = 127,
                .sinks = true});
  expect_right({.q_lens = ones(3),
                .kv_lens = {5, 700, 9000},
                .num_heads = 64,
                .head_dim = 64,
                .sinks = true});
  expect_right({.q_lens = {1, 2, 1},
                .kv_lens = {9, 700, 5000},
                .num_heads = 16,
                .head_dim = 256,
                .softcap = 50.0f});
  expect_right({.q_lens = {1, 2, 1}, .kv_lens = {9, 700, 5000}, .softcap = 2.0f});
}

TEST_P(DecodeAttentionTest, Fp8) {
  for (const int head_dim : {64, 128, 256}) {
    for (const int block_size : {16, 64}) {
      for (const int q_len : {1, 4}) {
        expect_right({.q_lens = std::vector<int>(6, q_len),
                      .kv_lens = {q_len, 17, 129, 1000, 4097, 20000},
                      .head_dim = head_dim,
                      .block_size = block_size,
                      .kv_dtype = DType::kF8E4M3,
                      .scales = true});
      }
    }
  }
  expect_right({.q_lens = {1, 2},
                .kv_lens = {5000, 300},
                .num_heads = 80,
                .kv_dtype = DType::kF8E4M3,
                .window_left = 1000,
                .sinks = true,
                .scales = true});
}

TEST_P(DecodeAttentionTest, Fp8WithTokenScales) {
  for (const int head_dim : {64, 128, 256}) {
    for (const int block_size : {16, 48, 256}) {
      for (const int q_len : {1, 4}) {
        expect_right({.q_lens = std::vector<int>(7, q_len),
                      .kv_lens = {q_len, 15, 17, 129, 1000, 4097, 20000},
                      .head_dim = head_dim,
                      .block_size = block_size,
                      .kv_dtype = DType::kF8E4M3,
                      .token_scales = true});
      }
    }
  }
  std::vector<int> lengths(200);
  std::iota(lengths.begin(), lengths.end(), 1);
  expect_right({.q_lens = ones(lengths.size()),
                .kv_lens = lengths,
                .num_heads = 4,
                .num_kv_heads = 2,
                .kv_dtype = DType::kF8E4M3,
                .token_scales = true});
  expect_right({.q_lens = {1, 2, 3},
                .kv_lens = {5000, 300, 0},
                .num_heads = 80,
                .kv_dtype = DType::kF8E4M3,
                .softcap = 30.0f,
                .window_left = 1000,
                .sinks = true,
                .token_scales = true});
}

// The same power of two everywhere: bit for bit as one scale for all, however large or small.
TEST_P(DecodeAttentionTest, EqualTokenScalesAreOneScale) {
  const AttentionInputs inputs(
      {.q_lens = ones(4), .kv_lens = {1, 77, 1000, 9000}, .kv_dtype = DType::kF8E4M3});
  for (const float scale : {1.0f, 0.5f, 0x1.0p-100f, 0x1.0p60f}) {
    const DeviceArray<float> one(std::vector<float>{scale});
    const DeviceArray<float> unity(std::vector<float>{1.0f});
    const auto rows = static_cast<size_t>(inputs.num_blocks() * 16 * inputs.shape().num_kv_heads);
    const DeviceArray<float> all(std::vector<float>(rows, scale));
    const DeviceArray<float> all_unity(std::vector<float>(rows, 1.0f));
    const AttentionOutputs by_tensor(inputs), by_token(inputs);
    DecodeArgs args = decode_args(inputs, by_tensor);
    args.scale_stride = 0;
    args.k_scale = unity.data();
    args.v_scale = one.data();
    run(args);
    args = decode_args(inputs, by_token);
    args.token_scales = true;
    args.k_scale = all_unity.data();
    args.v_scale = all.data();
    run(args);
    EXPECT_EQ(by_token.download_out(), by_tensor.download_out()) << scale;
    EXPECT_EQ(by_token.download_lse(), by_tensor.download_lse()) << scale;
  }
}

TEST_P(DecodeAttentionTest, TreeMasks) {
  for (const int tokens : {2, 5, 8}) {
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
      expect_right({.q_lens = std::vector<int>(7, tokens),
                    .kv_lens = {tokens, 16, 33, 129, 500, 5001, 20000},
                    .kv_dtype = dtype,
                    .tree = true});
    }
  }
  expect_right({.q_lens = {64, 1, 31}, .kv_lens = {1000, 200, 31}, .num_heads = 8, .tree = true});
  expect_right({.q_lens = {6, 6},
                .kv_lens = {130, 4000},
                .num_heads = 8,
                .num_kv_heads = 4,
                .head_dim = 256,
                .tree = true});
  expect_right(
      {.q_lens = {6, 6}, .kv_lens = {3000, 4000}, .window_left = 900, .sinks = true, .tree = true});
}

// A tree without branches sees what a causal mask sees, bit for bit.
TEST_P(DecodeAttentionTest, ATreeWithoutBranchesIsCausal) {
  const AttentionInputs inputs({.q_lens = {8, 1, 5}, .kv_lens = {700, 64, 5000}});
  std::vector<uint64_t> chain;
  for (const int length : inputs.shape().q_lens) {
    for (int i = 0; i < length; ++i) chain.push_back((uint64_t{2} << i) - 1);
  }
  const DeviceArray<uint64_t> mask(chain);
  const AttentionOutputs causal(inputs), tree(inputs);
  run(decode_args(inputs, causal));
  DecodeArgs args = decode_args(inputs, tree);
  args.tree_mask = mask.data();
  run(args);
  EXPECT_EQ(tree.download_out(), causal.download_out());
  EXPECT_EQ(tree.download_lse(), causal.download_lse());
}

TEST_P(DecodeAttentionTest, BatchDoesNotChangeBits) {
  const AttentionCase shape = {
      .q_lens = ones(256), .kv_lens = random_lengths(256, 1, 8192, 7), .num_heads = 64};
  const AttentionInputs inputs(shape);
  const AttentionOutputs outputs(inputs), alone(inputs);
  const DecodeArgs args = decode_args(inputs, outputs);
  run(args);
  EXPECT_EQ(judge_attention(inputs, outputs), "");
  const std::vector<uint16_t> all = outputs.download_out();
  const size_t row = 64 * 128;
  for (const int seq : {0, 1, 17, 100, 255}) {
    DecodeArgs one = args;
    one.out = alone.out();
    one.lse = alone.lse();
    one.num_seqs = one.num_tokens = 1;
    one.q = static_cast<const uint16_t*>(args.q) + static_cast<size_t>(seq) * row;
    one.seq_lens += seq;  // cu_seqlens_q of the first sequence: 0, 1
    one.block_table += seq * args.block_table_stride;
    run(one);
    const std::vector<uint16_t> out = alone.download_out();
    const auto first = all.begin() + static_cast<int64_t>(static_cast<size_t>(seq) * row);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + static_cast<int64_t>(row), first)) << seq;
  }
}

TEST_P(DecodeAttentionTest, OneSplitIsAsGoodAsMany) {
  const AttentionInputs inputs({.q_lens = ones(3), .kv_lens = {8000, 1500, 20}});
  for (const DecodeSplits splits : {DecodeSplits{1, 1, 1 << 20}, DecodeSplits{512, 128, 128}}) {
    const AttentionOutputs outputs(inputs);
    DecodeArgs args = decode_args(inputs, outputs);
    args.splits = splits;
    run(args);
    EXPECT_EQ(judge_attention(inputs, outputs), "") << splits.target_blocks;
  }
}

TEST_P(DecodeAttentionTest, RepeatsGiveTheSameBits) {
  const AttentionInputs inputs({.q_lens = ones(40), .kv_lens = random_lengths(40, 1, 6000, 3)});
  const AttentionOutputs outputs(inputs);
  const DecodeArgs args = decode_args(inputs, outputs);
  const Workspace workspace(args);
  ASSERT_TRUE(plan_decode(args, workspace.data(), nullptr).ok());
  std::vector<uint16_t> first;
  DecodeLaunch overlapped = launch();
  overlapped.overlap_previous = true;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(decode_attention(args, workspace.data(), nullptr, overlapped).ok());
    }
    const std::vector<uint16_t> out = outputs.download_out();
    if (first.empty()) first = out;
    ASSERT_EQ(out, first) << "round " << round;
  }
  EXPECT_EQ(judge_attention(inputs, outputs), "");
}

TEST_P(DecodeAttentionTest, GraphReplayWithOtherLengths) {
  const std::vector<int> longest(64, 32768 / 8);
  AttentionInputs inputs({.q_lens = ones(64), .kv_lens = longest});
  AttentionOutputs outputs(inputs);
  const DecodeArgs args = decode_args(inputs, outputs);
  const Workspace workspace(args);
  cudaStream_t stream;
  check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  ASSERT_TRUE(plan_decode(args, workspace.data(), stream).ok());
  ASSERT_TRUE(decode_attention(args, workspace.data(), stream, launch()).ok());
  check_cuda(cudaStreamEndCapture(stream, &graph), "end capture");
  check_cuda(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  for (int set = 0; set < 100; ++set) {
    inputs.set_lengths(
        set == 0 ? ones(64) : random_lengths(64, set % 3 == 0 ? 0 : 1, 1 << (set % 13), 50 + set));
    outputs.poison();
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check_cuda(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
    check_cuda(cudaStreamSynchronize(stream), "graph");
    const std::vector<uint16_t> replayed = outputs.download_out();
    outputs.poison();
    run(args);
    ASSERT_EQ(outputs.download_out(), replayed) << "set " << set;
    if (set % 10 == 0) {
      ASSERT_EQ(judge_attention(inputs, outputs), "") << "set " << set;
    }
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_P(DecodeAttentionTest, PoolBeyond32Bits) {
  // 8 heads of 128 values: 2^32 values are 262,144 blocks of 16 tokens.
  expect_right({.q_lens = ones(2), .kv_lens = {3000, 200}, .min_num_blocks = 270000});
}

INSTANTIATE_TEST_SUITE_P(Kernels, DecodeAttentionTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Portable" : "Hopper"; });

}  // namespace
}  // namespace octavo::backends::cuda
