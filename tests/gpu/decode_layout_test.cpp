// The decode kernel's order of tokens and dimensions, and its splits: no GPU needed.
#include "backends/cuda/tile/decode_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "backends/cuda/tile/decode_plan.h"

namespace octavo::backends::cuda {
namespace {

template <int kHeadDim, int kBytes>
struct Shape {
  using Layout = DecodeLayout<kHeadDim, kBytes>;
};

template <typename T>
class DecodeLayoutTest : public testing::Test {};
using Shapes = testing::Types<Shape<64, 1>, Shape<64, 2>, Shape<128, 1>, Shape<128, 2>,
                              Shape<256, 1>, Shape<256, 2>>;
TYPED_TEST_SUITE(DecodeLayoutTest, Shapes);

TYPED_TEST(DecodeLayoutTest, EveryTokenAndDimensionOnce) {
  using Layout = typename TypeParam::Layout;
  std::set<int> tokens, dims;
  for (int group = 0; group < Layout::kTokenGroups; ++group) {
    for (int index = 0; index < 8; ++index) tokens.insert(Layout::token(group, index));
  }
  EXPECT_EQ(static_cast<int>(tokens.size()), Layout::kTileTokens);
  EXPECT_EQ(*tokens.begin(), 0);
  EXPECT_EQ(*tokens.rbegin(), Layout::kTileTokens - 1);
  for (int group = 0; group < Layout::kDimGroups; ++group) {
    for (int index = 0; index < 8; ++index) dims.insert(Layout::out_dim(group, index));
  }
  EXPECT_EQ(static_cast<int>(dims.size()), Layout::kDimGroups * 8);
  EXPECT_EQ(*dims.rbegin(), Layout::kDimGroups * 8 - 1);
}

// Whatever the order of its loads, a lane gets the dimensions that it takes them for.
TYPED_TEST(DecodeLayoutTest, LoadsComeInAnyOrder) {
  using Layout = typename TypeParam::Layout;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, q = lane % 4;
    std::set<int> keys, expected_keys, values, expected_values;
    for (int load = 0; load < Layout::kKeyLoads; ++load) {
      keys.insert(Layout::key_offset(load, 1, g, q));
      const int as_taken = Layout::kSwapsKeys && g % 2 != 0 ? load ^ 1 : load;
      EXPECT_EQ(Layout::key_offset(load, 1, g, q),
                Layout::token(1, g) * Layout::kRowBytes +
                    Layout::key_dim(as_taken, q) * Layout::kValueBytes);
      expected_keys.insert(Layout::token(1, g) * Layout::kRowBytes + Layout::key_byte(load, q));
    }
    EXPECT_EQ(keys, expected_keys);
    for (const int index : {2 * q, 2 * q + 1}) {
      for (int span = 0; span < Layout::kSpans; ++span) {
        const int row = Layout::token(1, index) * Layout::kRowBytes;
        const int as_taken = span ^ q % Layout::kTurns;
        EXPECT_EQ(Layout::value_offset(span, 1, index, g),
                  row + Layout::out_dim(as_taken * Layout::kSpanValues, g) * Layout::kValueBytes);
        values.insert(Layout::value_offset(span, 1, index, g));
        expected_values.insert(row + Layout::value_byte(span, g));
      }
    }
    EXPECT_EQ(values, expected_values);
  }
}

// The offsets that the kernel adds as constants are those of the formulas.
TYPED_TEST(DecodeLayoutTest, StepsAreConstant) {
  using Layout = typename TypeParam::Layout;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, q = lane % 4;
    for (int group = 0; group < Layout::kTokenGroups; ++group) {
      for (int load = 0; load < Layout::kKeyLoads; ++load) {
        EXPECT_EQ(
            Layout::key_offset(load, group, g, q),
            Layout::key_offset(load % 2, 0, g, q) + group * Layout::kGroupBytes + load / 2 * 128);
      }
      for (int span = 0; span < Layout::kSpans; ++span) {
        for (const int index : {2 * q, 2 * q + 1}) {
          EXPECT_EQ(Layout::value_offset(span, group, index, g),
                    Layout::value_offset(span, 0, index, g) + group * Layout::kGroupBytes);
        }
      }
    }
  }
}

// How often the busiest bank of shared memory is asked by a warp's load of `bytes` a lane, over the
// least possible: lanes of 128 bytes together are served at a time.
int bank_conflicts(const std::vector<int>& offsets, int bytes) {
  int worst = 0;
  const int lanes = 128 / bytes;
  for (int first = 0; first < 32; first += lanes) {
    std::vector<std::set<int>> words(32);
    for (int lane = first; lane < first + lanes; ++lane) {
      for (int byte = 0; byte < bytes; byte += 4) {
        const int word = (offsets[static_cast<size_t>(lane)] + byte) / 4;
        words[static_cast<size_t>(word % 32)].insert(word);
      }
    }
    for (const auto& bank : words) worst = std::max(worst, static_cast<int>(bank.size()));
  }
  return worst;
}

TYPED_TEST(DecodeLayoutTest, LoadsTouchBanksEvenly) {
  using Layout = typename TypeParam::Layout;
  const auto offsets = [](auto of_lane) {
    std::vector<int> all;
    for (int lane = 0; lane < 32; ++lane) all.push_back(of_lane(lane / 4, lane % 4));
    return all;
  };
  for (int load = 0; load < Layout::kKeyLoads; ++load) {
    const auto keys = offsets([&](int g, int q) { return Layout::key_offset(load, 1, g, q); });
    EXPECT_EQ(bank_conflicts(keys, 16), Layout::kKeyLoads > 1 && !Layout::kSwapsKeys ? 2 : 1);
  }
  for (int span = 0; span < Layout::kSpans; ++span) {
    for (int odd = 0; odd < 2; ++odd) {
      const auto values =
          offsets([&](int g, int q) { return Layout::value_offset(span, 1, 2 * q + odd, g); });
      EXPECT_EQ(bank_conflicts(values, Layout::kSpanBytes), Layout::kRowBytes == 256 ? 1 : 2);
    }
  }
}

TEST(FastDivisor, DividesLikeTheLanguage) {
  for (const int divisor : {1, 2, 3, 5, 7, 16, 17, 48, 100, 8192, 65535, 1 << 30, 0x7FFFFFFF}) {
    const FastDivisor fast(divisor);
    for (const int64_t base : {0, 1, 2, 15, 16, 1000, 123456789, 0x7FFFFFFF}) {
      for (int64_t n : {base, base * divisor, base * divisor - 1, base * divisor + 1}) {
        if (n < 0 || n > 0x7FFFFFFF) continue;
        const int value = static_cast<int>(n);
        ASSERT_EQ(fast.divide(value), value / divisor) << value << " / " << divisor;
        ASSERT_EQ(fast.remainder(value), value % divisor) << value << " / " << divisor;
      }
    }
  }
}

DecodeArgs llama() {
  DecodeArgs args;
  args.num_seqs = 1;
  args.num_heads = 32;
  args.num_kv_heads = 8;
  args.head_dim = 128;
  args.block_size = 16;
  return args;
}

TEST(DecodeCut, CoversWhatRowsSee) {
  for (const int kv_heads : {1, 2, 8, 32}) {
    for (const int window : {-1, 0, 100, 4095}) {
      DecodeArgs args = llama();
      args.num_kv_heads = kv_heads;
      args.window_left = window;
      for (int keys = 0; keys < 140000; keys += 1 + keys / 7) {
        for (const int q_len : {1, 8}) {
          const DecodeCut cut = decode_cut(args, keys, q_len);
          EXPECT_EQ(cut.begin % 16, 0);
          EXPECT_EQ(cut.end, keys);
          EXPECT_EQ(cut.split_tokens % kDecodeSplitUnit, 0);
          EXPECT_GE(cut.num_splits, 1);
          EXPECT_LE(cut.num_splits, decode_max_splits(args));
          EXPECT_LE(int64_t{cut.num_splits} * kv_heads * decode_row_tiles(args),
                    decode_max_items(args));
          const int lowest = lowest_key(decode_mask(args), keys - q_len);
          EXPECT_LE(cut.begin, lowest);
          EXPECT_GT(cut.begin + 16, lowest);
          EXPECT_GE(cut.begin + cut.num_splits * cut.split_tokens, keys);
          if (cut.num_splits > 1) {
            EXPECT_LT(cut.begin + (cut.num_splits - 1) * cut.split_tokens, keys);
          }
        }
      }
    }
  }
}

TEST(DecodeCut, DependsOnTheLengthAndNotOnTheBatch) {
  DecodeArgs args = llama();
  EXPECT_EQ(decode_cut(args, 256, 1).num_splits, 1);
  EXPECT_EQ(decode_cut(args, 2048, 1).split_tokens, 256);
  EXPECT_EQ(decode_cut(args, 4096, 1).split_tokens, 512);
  EXPECT_EQ(decode_cut(args, 16384, 1).split_tokens, 1024);
  EXPECT_EQ(decode_cut(args, 131072, 1).split_tokens, 8192);
  args.num_seqs = 300;
  args.num_tokens = 2400;
  EXPECT_EQ(decode_cut(args, 4096, 1).split_tokens, 512);
}

TEST(DecodeParts, CoverTheCutInAlignedGroups) {
  const DecodeArgs args = llama();
  for (int keys = 0; keys < 140000; keys += 1 + keys / 7) {
    const DecodeCut cut = decode_cut(args, keys, 1);
    for (int choice = 0; choice < kDecodePartChoices; ++choice) {
      const DecodeParts parts(cut, choice);
      EXPECT_GE(parts.count, 1);
      EXPECT_LE(parts.count, cut.num_splits);
      EXPECT_GE(parts.count * parts.tokens, keys);
      if (parts.count == 1) continue;
      EXPECT_LT((parts.count - 1) * parts.tokens, keys);
      EXPECT_EQ(parts.tokens, parts.splits * cut.split_tokens);
    }
    EXPECT_EQ(DecodeParts(cut, kDecodePartChoices - 1).count, 1);
  }
}

// What a plan chooses for equal lengths on 132 multiprocessors of two blocks each.
int splits_of_a_block(int num_seqs, int keys) {
  const DecodeCut cut = decode_cut(llama(), keys, 1);
  int best = 0;
  float least = INFINITY;
  for (int choice = 0; choice < kDecodePartChoices; ++choice) {
    const DecodeParts parts(cut, choice);
    const auto items = static_cast<float>(8 * num_seqs * parts.count);
    const float time = decode_time({static_cast<float>(8 * num_seqs) * static_cast<float>(keys),
                                    items, static_cast<float>(parts.tokens)},
                                   decode_blocks(llama(), 132));
    if (time >= least) continue;
    least = time;
    best = std::min(parts.splits, cut.num_splits);
  }
  return best;
}

TEST(DecodeParts, FillTheMultiprocessorsOnceWhereTheyCan) {
  EXPECT_EQ(splits_of_a_block(1, 2048), 1);
  EXPECT_EQ(splits_of_a_block(4, 2048), 1);
  EXPECT_EQ(splits_of_a_block(8, 2048), 2);
  EXPECT_EQ(splits_of_a_block(16, 2048), 4);
  EXPECT_EQ(splits_of_a_block(32, 2048), 8);
  EXPECT_EQ(splits_of_a_block(8, 16384), 4);
  EXPECT_EQ(splits_of_a_block(1, 131072), 1);
  // Where they cannot, parts are not so long that some blocks go without.
  EXPECT_LT(splits_of_a_block(40, 2048), 8);
}

TEST(DecodeWorkspace, PartsDoNotOverlap) {
  DecodeArgs args = llama();
  args.num_seqs = 3;
  args.max_q_len = 8;
  std::vector<char> memory(decode_workspace(args, nullptr).bytes);
  const DecodeWorkspace w = decode_workspace(args, memory.data());
  const auto at = [&](const void* p) { return static_cast<const char*>(p) - memory.data(); };
  EXPECT_EQ(decode_row_tiles(args), 2);
  const int items = 3 * decode_max_splits(args) * 8 * 2;
  EXPECT_EQ(decode_max_items(args), items);
  EXPECT_EQ(at(w.header), 0);
  EXPECT_GE(at(w.arrivals), 32);
  EXPECT_GE(at(w.work) - at(w.arrivals), 3 * 8 * 2 * 4);
  EXPECT_GE(at(w.partial_stats) - at(w.work), 3 * decode_max_splits(args) * 32);
  EXPECT_GE(at(w.partial_values) - at(w.partial_stats), items * 16 * 8);
  EXPECT_GE(static_cast<int64_t>(w.bytes) - at(w.partial_values), int64_t{items} * 16 * 128 * 4);
}

TEST(DecodeAttention, RefusesWhatItCannotDo) {
  const auto code = [](void (*change)(DecodeArgs&)) {
    DecodeArgs args = llama();
    change(args);
    return plan_decode(args, nullptr, nullptr).code();
  };
  EXPECT_EQ(code([](DecodeArgs& a) { a.head_dim = 96; }), StatusCode::kUnsupported);
  EXPECT_EQ(code([](DecodeArgs& a) { a.kv_dtype = DType::kF32; }), StatusCode::kUnsupported);
  EXPECT_EQ(code([](DecodeArgs& a) { a.block_size = 8; }), StatusCode::kUnsupported);
  EXPECT_EQ(code([](DecodeArgs& a) { a.window_right = 3; }), StatusCode::kUnsupported);
  EXPECT_EQ(code([](DecodeArgs& a) { a.num_kv_heads = 5; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](DecodeArgs& a) { a.scale = 0.0f; }), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace octavo::backends::cuda
