// Paged decode attention of speculated tokens, with tree masks, and of E4M3 caches with scales of
// every kind, against the fp32 reference.
#include <numeric>

#include "tests/gpu/decode_fixture.h"

namespace octavo::backends::cuda {
namespace {

class DecodeFormatsTest : public DecodeAttentionTest {};

TEST_P(DecodeFormatsTest, SpeculatedTokens) {
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

TEST_P(DecodeFormatsTest, Fp8) {
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

TEST_P(DecodeFormatsTest, Fp8WithTokenScales) {
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
TEST_P(DecodeFormatsTest, EqualTokenScalesAreOneScale) {
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

TEST_P(DecodeFormatsTest, TreeMasks) {
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
TEST_P(DecodeFormatsTest, ATreeWithoutBranchesIsCausal) {
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

// Needs no GPU.
TEST(DecodeFormats, RefusesWhatItCannotDo) {
  DecodeArgs good;
  good.num_heads = good.num_kv_heads = 2;
  good.head_dim = 64;
  good.block_size = 16;
  good.kv_dtype = DType::kF8E4M3;
  EXPECT_TRUE(decode_attention(good, nullptr, nullptr).ok());  // no sequences: nothing is done
  const auto refused = [&](auto change, const char* part) {
    DecodeArgs args = good;
    change(args);
    const Status status = decode_attention(args, nullptr, nullptr);
    ASSERT_FALSE(status.ok()) << part;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  const uint64_t mask = 1;
  const float scale = 1.0f;
  refused(
      [&](DecodeArgs& a) {
        a.tree_mask = &mask;
        a.max_q_len = 65;
      },
      "tree mask of 65");
  refused([](DecodeArgs& a) { a.token_scales = true; }, "without k_scale and v_scale");
  refused(
      [&](DecodeArgs& a) {
        a.token_scales = true;
        a.k_scale = a.v_scale = &scale;
        a.kv_dtype = DType::kBF16;
      },
      "bfloat16");
}

INSTANTIATE_TEST_SUITE_P(Kernels, DecodeFormatsTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Portable" : "Hopper"; });

}  // namespace
}  // namespace octavo::backends::cuda
