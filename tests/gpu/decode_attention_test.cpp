// Paged decode attention against the fp32 reference: lengths, groups, masks; and what must hold bit
// for bit. Each property runs for Hopper's kernel and for the portable one.
#include <algorithm>
#include <numeric>
#include <random>

#include "backends/cuda/tile/decode_plan.h"
#include "tests/gpu/decode_fixture.h"

namespace octavo::backends::cuda {
namespace {

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

// Nor does what else the GPU does: under_load.sh runs this in several processes at once.
TEST_P(DecodeAttentionTest, RepetitionDoesNotChangeBits) {
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    const AttentionCase shape = {.q_lens = ones(256),
                                 .kv_lens = random_lengths(256, 1, 8192, 7),
                                 .num_heads = 64,
                                 .kv_dtype = dtype};
    const AttentionInputs inputs(shape);
    const AttentionOutputs outputs(inputs);
    const DecodeArgs args = decode_args(inputs, outputs);
    run(args);
    EXPECT_EQ(judge_attention(inputs, outputs), "");
    const std::vector<uint16_t> first = outputs.download_out();
    for (int i = 0; i < 50; ++i) {
      run(args);
      ASSERT_TRUE(outputs.download_out() == first) << "run " << i;
    }
  }
}

// Whether a block takes one split, two, four or all of a sequence changes no bit of it.
TEST_P(DecodeAttentionTest, PartsDoNotChangeBits) {
  const auto expect_same = [&](const AttentionCase& shape) {
    const AttentionInputs inputs(shape);
    std::vector<uint16_t> first_out;
    std::vector<float> first_lse;
    for (const int part_splits : {1, 2, 4, 5, 0}) {
      AttentionOutputs outputs(inputs);
      outputs.poison();
      DecodeArgs args = decode_args(inputs, outputs);
      args.splits.part_splits = part_splits;
      run(args, 2);
      EXPECT_EQ(judge_attention(inputs, outputs), "") << shape.describe();
      const std::vector<uint16_t> out = outputs.download_out();
      const std::vector<float> lse = outputs.download_lse();
      if (first_out.empty()) first_out = out, first_lse = lse;
      EXPECT_EQ(out, first_out) << part_splits << " splits: " << shape.describe();
      EXPECT_EQ(lse, first_lse) << part_splits << " splits: " << shape.describe();
    }
  };
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    for (const int head_dim : {64, 128, 256}) {
      for (const int group : {1, 4, 12}) {
        expect_same({.q_lens = ones(40),
                     .kv_lens = random_lengths(40, 0, 1 << (group + 9) % 15, 11),
                     .num_heads = 2 * group,
                     .num_kv_heads = 2,
                     .head_dim = head_dim,
                     .kv_dtype = dtype,
                     .scales = dtype == DType::kF8E4M3});
      }
    }
  }
  expect_same({.q_lens = {8, 1, 3, 5},
               .kv_lens = {9000, 20000, 2048, 700},
               .kv_dtype = DType::kF8E4M3,
               .window_left = 5000,
               .sinks = true,
               .token_scales = true});
  expect_same({.q_lens = {6, 8, 2}, .kv_lens = {3000, 16000, 5000}, .tree = true});
  expect_same({.q_lens = {1, 1}, .kv_lens = {16385, 8191}, .softcap = 20.0f, .chunk = 6000});
}

// The list of a batch, read back: every sequence that is for decode, each of its keys once.
TEST_P(DecodeAttentionTest, PlanListsEveryKeyOnce) {
  for (const int count : {1, 2, 7, 33, 200, 1100}) {
    std::vector<int> q_lens = random_lengths(count, 1, 4, 5);
    std::vector<int> kv_lens = random_lengths(count, 0, count > 300 ? 600 : 9000, 6);
    const AttentionInputs inputs({.q_lens = q_lens, .kv_lens = kv_lens, .num_heads = 8});
    const AttentionOutputs outputs(inputs);
    DecodeArgs args = decode_args(inputs, outputs);
    args.max_q_len = 3;
    const Workspace memory(args);
    ASSERT_TRUE(plan_decode(args, memory.data(), nullptr).ok());
    const DecodeWorkspace workspace = decode_workspace(args, memory.data());
    DecodeHeader header;
    check_cuda(cudaMemcpy(&header, workspace.header, sizeof header, cudaMemcpyDefault), "header");
    ASSERT_EQ(header.num_items, header.num_work * args.num_kv_heads * decode_row_tiles(args));
    ASSERT_LE(header.num_items, decode_max_items(args));
    std::vector<DecodeWork> list(static_cast<size_t>(header.num_work));
    check_cuda(cudaMemcpy(list.data(), workspace.work, list.size() * sizeof(DecodeWork),
                          cudaMemcpyDefault),
               "list");
    std::vector<int> listed(static_cast<size_t>(count));
    for (size_t i = 0; i < list.size(); i += list[i].num_parts) {
      const auto seq = static_cast<size_t>(list[i].seq);
      const DecodeCut cut = decode_cut(args, kv_lens[seq], q_lens[seq]);
      ASSERT_EQ(listed[seq]++, 0);
      int key = cut.begin;
      for (size_t part = 0; part < list[i].num_parts; ++part) {
        const DecodeWork& work = list.at(i + part);
        ASSERT_EQ(work.seq, list[i].seq);
        ASSERT_EQ(work.part, part);
        ASSERT_EQ(work.num_parts, list[i].num_parts);
        ASSERT_EQ(work.begin, key);
        ASSERT_EQ((work.begin - cut.begin) % cut.split_tokens, 0);
        ASSERT_EQ(work.split_tokens, cut.split_tokens);
        ASSERT_EQ(work.num_keys, kv_lens[seq]);
        if (work.num_parts > 1) {
          ASSERT_EQ(work.end, std::min(cut.end, key + work.part_splits * cut.split_tokens));
        }
        key = work.end;
      }
      ASSERT_EQ(key, cut.end);
    }
    for (size_t seq = 0; seq < listed.size(); ++seq) EXPECT_EQ(listed[seq], q_lens[seq] <= 3);
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
