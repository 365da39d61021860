// Keys and values into the paged cache, with RoPE, against loops in double precision: what is
// written, to which slots, and that nothing else is touched.
#include "backends/cuda/kv_write.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/gpu/device_array.h"
#include "tests/gpu/kv_write_harness.h"

namespace octavo::backends::cuda {
namespace {

template <typename T>
size_t index(T value) {
  return static_cast<size_t>(value);
}

class KvWriteTest : public testing::TestWithParam<KvFormat> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  }
  static void expect_right(WriteCase shape) {
    shape.format = GetParam();
    const WriteInputs inputs(shape);
    const Written got = run_write_kv(inputs);
    EXPECT_EQ(judge_write_kv(inputs, got), "") << shape.describe();
  }
};

TEST_P(KvWriteTest, HeadAndRotaryDims) {
  for (const int head_dim : {16, 48, 64, 80, 96, 128, 192, 256, 512}) {
    for (const int rotary_dim : {0, 16, head_dim / 32 * 16, head_dim}) {
      expect_right({.head_dim = head_dim, .rotary_dim = rotary_dim});
    }
  }
}

TEST_P(KvWriteTest, BlockSizesAndTokens) {
  for (const int block_size : {16, 32, 48, 64, 128, 256}) {
    for (const int num_tokens : {1, 2, 33, 300}) {
      expect_right({.num_tokens = num_tokens, .block_size = block_size});
    }
  }
}

TEST_P(KvWriteTest, Heads) {
  for (const auto& [heads, kv_heads] :
       {std::pair{0, 1}, {1, 1}, {32, 8}, {64, 8}, {40, 40}, {71, 1}, {128, 16}}) {
    expect_right({.num_tokens = 3, .num_heads = heads, .num_kv_heads = kv_heads});
  }
}

// Positions far out: the angle has few bits left for its sine, and they must be the right ones.
TEST_P(KvWriteTest, LongContextsAndScaledRope) {
  expect_right({.num_tokens = 64, .max_position = 131072});
  expect_right({.num_tokens = 64, .max_position = 16'000'000});
  expect_right({.num_tokens = 64, .attention_factor = 1.3466f, .max_position = 131072});
}

TEST_P(KvWriteTest, PaddingIsLeftAlone) {
  expect_right({.num_tokens = 40, .num_padding = 13});
  expect_right({.num_tokens = 6, .num_padding = 6});
}

TEST_P(KvWriteTest, ExtremeMagnitudes) {
  for (const float magnitude : {0.0f, 1e-38f, 1e-20f, 1e-3f, 100.0f, 1e6f, 1e30f}) {
    expect_right({.num_tokens = 9, .magnitude = magnitude});
  }
}

// A token gives the same bits alone and among others, in any block.
TEST_P(KvWriteTest, BitsDependOnTheTokenAlone) {
  const WriteCase shape = {.num_tokens = 70, .format = GetParam()};
  const WriteInputs all(shape);
  const Written batch = run_write_kv(all);
  for (const int t : {0, 31, 69}) {
    WriteInputs one = all;
    one.c.num_tokens = 1;
    one.qkv.assign(all.qkv.begin() + t * all.row, all.qkv.begin() + (t + 1) * all.row);
    one.positions = {all.positions[index(t)]};
    one.slot_mapping = {0};
    const Written alone = run_write_kv(one);
    const auto row_bytes = index(shape.head_dim * (shape.fp8() ? 1 : 2));
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      const auto from = index(all.cache_row(all.slot_mapping[index(t)], head)) * row_bytes;
      const auto to = index(one.cache_row(0, head)) * row_bytes;
      EXPECT_TRUE(std::equal(alone.k.begin() + static_cast<int64_t>(to),
                             alone.k.begin() + static_cast<int64_t>(to + row_bytes),
                             batch.k.begin() + static_cast<int64_t>(from)));
      EXPECT_TRUE(std::equal(alone.v.begin() + static_cast<int64_t>(to),
                             alone.v.begin() + static_cast<int64_t>(to + row_bytes),
                             batch.v.begin() + static_cast<int64_t>(from)));
    }
    EXPECT_TRUE(std::equal(alone.qkv.begin(), alone.qkv.end(), batch.qkv.begin() + t * all.row));
  }
}

std::string format_name(const testing::TestParamInfo<KvFormat>& info) {
  switch (info.param) {
    case KvFormat::kBf16:
      return "Bf16";
    case KvFormat::kFp8Tensor:
      return "Fp8Tensor";
    case KvFormat::kFp8Head:
      return "Fp8Head";
    case KvFormat::kFp8TokenHead:
      return "Fp8TokenHead";
  }
  return "?";
}

INSTANTIATE_TEST_SUITE_P(KvFormats, KvWriteTest,
                         testing::Values(KvFormat::kBf16, KvFormat::kFp8Tensor, KvFormat::kFp8Head,
                                         KvFormat::kFp8TokenHead),
                         format_name);

// Needs no GPU: what is refused is refused before anything is launched.
TEST(KvWrite, RefusesWhatItCannotDo) {
  KvWriteArgs good;
  good.num_kv_heads = 2;
  good.head_dim = 64;
  good.block_size = 16;
  EXPECT_TRUE(write_kv(good, nullptr).ok());  // no tokens: nothing is done
  const auto refused = [&](auto change, const char* part) {
    KvWriteArgs args = good;
    change(args);
    const Status status = write_kv(args, nullptr);
    ASSERT_FALSE(status.ok()) << part;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused([](KvWriteArgs& a) { a.kv_dtype = DType::kF16; }, "float16");
  refused([](KvWriteArgs& a) { a.head_dim = 72; }, "head_dim of 72");
  refused([](KvWriteArgs& a) { a.head_dim = 528; }, "head_dim of 528");
  refused([](KvWriteArgs& a) { a.rotary_dim = 24; }, "rotary_dim of 24");
  refused([](KvWriteArgs& a) { a.rotary_dim = 80; }, "rotary_dim of 80");
  refused([](KvWriteArgs& a) { a.block_size = 8; }, "block_size of 8");
  refused([](KvWriteArgs& a) { a.num_blocks = int64_t{1} << 28; }, "blocks of 16");
  refused([](KvWriteArgs& a) { a.num_kv_heads = 0; }, "0 heads on 0");
  refused([](KvWriteArgs& a) { a.k_stride = 4; }, "strides of 0, 4, 0");
  refused(
      [](KvWriteArgs& a) {
        a.kv_dtype = DType::kF8E4M3;
        a.scale_kind = KvScale::kTokenHead;
      },
      "k_scale");
}

}  // namespace
}  // namespace octavo::backends::cuda
