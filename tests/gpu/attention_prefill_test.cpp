// The prefill kernels against the fp32 reference: every head dimension, ragged batches, contiguous
// and paged keys, masks. Each case runs for Hopper's kernels and for the portable ones.
#include "tests/gpu/prefill_fixture.h"

namespace octavo::backends::cuda {
namespace {

// One tile, then one tile and a bit: what to look at first when all else fails.
TEST_P(AttentionPrefill, Small) {
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

TEST_P(AttentionPrefill, Dense) {
  expect_right(make_case({4096, 4096, 4096, 4096}, {4096, 4096, 4096, 4096}, 32, 8, 128, 0));
  expect_right(make_case({2500, 900}, {2500, 900}, 8, 4, 64, 0));
}

TEST_P(AttentionPrefill, FullWithUnequalLengths) {
  for (const int head_dim : {64, 128, 256}) {
    AttentionCase shape = make_case({113, 1023, 1024}, {203, 1024, 1023}, 6, 2, head_dim, 0);
    shape.window_right = -1;
    expect_right(shape);
  }
}

// Scores so far apart that later blocks raise the maxima of many rows, of some, or of one.
TEST_P(AttentionPrefill, MaximaThatGrow) {
  for (const int head_dim : {64, 128, 256}) {
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
      for (const float sharpness : {6.0f, 20.0f}) {
        AttentionCase shape = make_case({700, 130, 1}, {700, 1900, 1300}, 8, 2, head_dim, 16);
        shape.kv_dtype = dtype;
        shape.sharpness = sharpness;
        expect_right(shape);
        shape.window_left = 300;
        expect_right(shape);
      }
    }
    AttentionCase shape = make_case({700}, {900}, 4, 1, head_dim, 0);
    shape.window_right = -1;
    shape.sharpness = 20.0f;
    expect_right(shape);
  }
}

TEST_P(AttentionPrefill, MoreQueriesThanKeys) {
  for (const int head_dim : {64, 128, 256}) {
    expect_right(make_case({256, 640}, {512, 128}, 6, 1, head_dim, 0));
  }
}

TEST_P(AttentionPrefill, RaggedLengths) {
  const std::vector<int> lengths = {1, 0, 7, 128, 129, 2000, 8191, 3};
  expect_right(make_case(lengths, lengths, 32, 8, 128, 0));
  expect_right(make_case(lengths, lengths, 32, 8, 128, 16));
}

TEST_P(AttentionPrefill, CrossLengthsAndNoKeys) {
  for (const int block_size : {0, 16}) {
    expect_right(make_case({5, 1, 64, 1}, {5000, 17, 0, 0}, 32, 8, 128, block_size));
    expect_right(make_case({5, 1, 64, 1}, {0, 0, 0, 0}, 32, 8, 128, block_size));
  }
}

TEST_P(AttentionPrefill, ManySequences) {
  std::vector<int> lengths(1500);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<int>(i * 37 % 64);
  expect_right(make_case(lengths, lengths, 32, 8, 128, 0));
}

TEST_P(AttentionPrefill, GroupSizes) {
  for (const auto& [heads, kv_heads] :
       {std::pair{2, 1}, {3, 1}, {5, 1}, {12, 1}, {16, 1}, {40, 1}, {64, 1}, {40, 8}, {8, 8}}) {
    for (const int head_dim : {64, 128}) {
      expect_right(make_case({150, 33}, {300, 33}, heads, kv_heads, head_dim, 16));
    }
  }
}

TEST_P(AttentionPrefill, MixedBatch) {
  std::vector<int> q_lens = {2048, 77, 1}, kv_lens = {2048, 500, 3};
  for (int i = 0; i < 120; ++i) {
    q_lens.push_back(1);
    kv_lens.push_back(1 + i * 61 % 7000);
  }
  expect_right(make_case(q_lens, kv_lens, 32, 8, 128, 16));
}

TEST_P(AttentionPrefill, PoolBeyondFourGigabytes) {
  AttentionCase shape = make_case({300, 20}, {2000, 20}, 32, 8, 128, 16);
  shape.min_num_blocks = (int64_t{1} << 32) / (16 * 8 * 128 * 2) + 1000;
  expect_right(shape);
}

TEST_P(AttentionPrefill, Windows) {
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

TEST_P(AttentionPrefill, Chunks) {
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

TEST_P(AttentionPrefill, SinksAndSoftcap) {
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

TEST_P(AttentionPrefill, Fp8) {
  for (const int head_dim : {64, 128, 256}) {
    for (const int block_size : {16, 64, 0}) {
      for (const bool scales : {true, false}) {
        AttentionCase shape =
            make_case({300, 1, 0, 77}, {2000, 900, 40, 77}, 8, 2, head_dim, block_size);
        shape.kv_dtype = DType::kF8E4M3;
        shape.scales = scales;
        expect_right(shape);
        shape.window_right = -1;
        shape.sinks = true;
        expect_right(shape);
      }
    }
  }
  AttentionCase masks = make_case({300, 1, 500}, {1300, 900, 500}, 16, 8, 128, 16);
  masks.kv_dtype = DType::kF8E4M3;
  masks.scales = true;
  masks.softcap = 30.0f;
  expect_right(masks);
  masks.softcap = 0.0f;
  masks.window_left = 129;
  expect_right(masks);
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
  args.kv_dtype = DType::kF16;
  EXPECT_EQ(plan_prefill(args, nullptr, nullptr).code(), StatusCode::kUnsupported);
  args.kv_dtype = DType::kF8E4M3;
  EXPECT_TRUE(plan_prefill(args, nullptr, nullptr).ok());
  args.scale = 0;
  EXPECT_EQ(plan_prefill(args, nullptr, nullptr).code(), StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionPrefill, testing::Bool(),
                         [](const auto& param) { return param.param ? "Portable" : "Hopper"; });

}  // namespace
}  // namespace octavo::backends::cuda
