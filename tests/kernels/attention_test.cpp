// Every attention kernel of the table: against the oracle on random paged caches, and the promise
// that a row's bits depend on nothing but its own sequence.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/attention.h"
#include "kernel_test_util.h"
#include "paged_batch.h"
#include "tolerance.h"

namespace octavo::testing {
namespace {

using backends::cpu::Kernel;

class AttentionKernel : public ::testing::TestWithParam<const Kernel*> {
 protected:
  void run(Context& context, const ops::AttentionArgs& args) const {
    call(*GetParam(), context, args);
  }

  static double tolerance(DType dtype) {
    const bool rounds = GetParam()->arithmetic == backends::Arithmetic::kBFloat16;
    return rounds && (dtype == DType::kBF16 || dtype == DType::kI8) ? kAttentionBFloat16
                                                                    : kAttention;
  }
};

const std::vector<Sequence> kMixed = {{300, 1}, {7, 7}, {520, 70}, {1, 1}, {257, 2}, {256, 1}};
// Windows and chunks of less, of more and of much more than a tile; whole tiles, and single keys.
const Mask kMasks[] = {{},        {1, 0, 0},  {100, 0, 0},  {300, 0, 30}, {256, 0, 0},
                       {0, 1, 0}, {0, 64, 5}, {0, 200, 50}, {0, 256, 0},  {4096, 4096, 2}};

TEST_P(AttentionKernel, AgreesWithTheOracle) {
  Rng rng(5);
  const Heads shapes[] = {{9, 3, 64}, {4, 4, 32}, {8, 1, 16}, {2, 2, 37},
                          {2, 1, 80}, {3, 3, 20}, {70, 1, 8}, {4, 2, 128}};
  const DType dtypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};
  for (size_t i = 0; i < std::size(shapes); ++i) {
    const Heads& heads = shapes[i];
    for (size_t j = 0; j < std::size(dtypes); ++j) {
      if (i > 1 && i % std::size(dtypes) != j) continue;  // every type with the first shapes
      const DType dtype = dtypes[j];
      const int64_t block_size = random_int(rng, 1, 40);
      PagedBatch batch(rng, dtype, heads, block_size, kMixed);
      PaddedMat expected(batch.num_tokens(), batch.cols());
      PaddedMat actual(batch.num_tokens(), batch.cols());
      Context context(2, batch.num_tokens(), batch.cols());
      backends::ref::attention(*context, batch.args(expected, heads.num_heads));
      run(context, batch.args(actual, heads.num_heads));
      ASSERT_LE(relative_error(actual, expected), tolerance(dtype))
          << heads.num_heads << "/" << heads.num_kv_heads << " heads of " << heads.head_dim << " "
          << dtype_traits(dtype).name << ", blocks of " << block_size;
      ASSERT_TRUE(actual.padding_is_untouched());
    }
  }
}

TEST_P(AttentionKernel, MasksAndCapsAgreeWithTheOracle) {
  Rng rng(10);
  const Heads heads = {6, 2, 48};
  for (const Mask& mask : kMasks) {
    SCOPED_TRACE(::testing::Message()
                 << "window " << mask.window << ", chunk " << mask.chunk << ", " << mask.softcap);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
      PagedBatch batch(rng, dtype, heads, random_int(rng, 1, 40), kMixed);
      batch.set_mask(mask);
      PaddedMat expected(batch.num_tokens(), batch.cols());
      PaddedMat actual(batch.num_tokens(), batch.cols());
      Context context(2, batch.num_tokens(), batch.cols());
      backends::ref::attention(*context, batch.args(expected, heads.num_heads));
      run(context, batch.args(actual, heads.num_heads));
      ASSERT_LE(relative_error(actual, expected), tolerance(dtype));
      ASSERT_TRUE(actual.padding_is_untouched());
    }
  }
}

TEST_P(AttentionKernel, SequencesAloneAndInChunksAreTheSameBits) {
  Rng rng(6);
  const Heads heads = {6, 2, 64};
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    for (const Mask& mask : kMasks) {
      PagedBatch batch(rng, dtype, heads, 16, kMixed);
      batch.set_mask(mask);
      PaddedMat whole(batch.num_tokens(), batch.cols());
      Context context(2, batch.num_tokens(), batch.cols());
      run(context, batch.args(whole, heads.num_heads));
      for (size_t s = 0; s < kMixed.size(); ++s) {
        for (const int64_t chunk : {1, 3, 22, 64, 1000}) {
          for (int64_t begin = 0; begin < kMixed[s].rows; begin += chunk) {
            const int64_t end = std::min(begin + chunk, kMixed[s].rows);
            PaddedMat part(end - begin, batch.cols());
            run(context, batch.chunk(part, heads.num_heads, s, begin, end));
            ASSERT_TRUE(same_bits(part, whole, batch.first_row(s) + begin))
                << dtype_traits(dtype).name << ", window " << mask.window << ", chunk "
                << mask.chunk << ", sequence " << s << ", rows " << begin << " to " << end;
          }
        }
      }
    }
  }
}

TEST_P(AttentionKernel, ThreadsDoNotChangeABit) {
  Rng rng(7);
  const Heads heads = {6, 2, 64};
  // The first two are few units and many tiles: threads share the tiles.
  const std::vector<Sequence> batches[] = {{{3000, 1}}, {{900, 3}}, kMixed};
  for (const Mask& mask : {Mask{}, Mask{700, 0, 0}, Mask{0, 1024, 20}}) {
    for (const auto& sequences : batches) {
      const DType dtype = mask.window > 0 ? DType::kI8 : DType::kF32;
      PagedBatch batch(rng, dtype, heads, 32, sequences);
      batch.set_mask(mask);
      PaddedMat one(batch.num_tokens(), batch.cols());
      Context single(1, batch.num_tokens(), batch.cols());
      run(single, batch.args(one, heads.num_heads));
      for (const int threads : {2, 3}) {
        PaddedMat many(batch.num_tokens(), batch.cols());
        Context context(threads, batch.num_tokens(), batch.cols());
        run(context, batch.args(many, heads.num_heads));
        ASSERT_TRUE(same_bits(one, many)) << threads << " threads";
      }
    }
  }
}

TEST_P(AttentionKernel, ASmallWorkspaceChangesNoBit) {
  Rng rng(9);
  const Heads heads = {6, 2, 64};
  PagedBatch batch(rng, DType::kBF16, heads, 16, {{2500, 1}});
  PaddedMat whole(1, batch.cols());
  Context context(2, 1, batch.cols());
  run(context, batch.args(whole, heads.num_heads));
  const int64_t least = 64 + backends::cpu::attention_workspace_bytes(heads.head_dim, 2) -
                        backends::cpu::kAttentionPartialBytes;
  // No room for tiles out of order, room for rounds of about one tile, of several.
  for (const int64_t room : {0, 4096, 6000, 12000}) {
    (*context).workspace_bytes = least + room;
    PaddedMat out(1, batch.cols());
    run(context, batch.args(out, heads.num_heads));
    ASSERT_TRUE(same_bits(out, whole)) << room;
  }
}

TEST_P(AttentionKernel, LargeScoresDoNotOverflow) {
  Rng rng(8);
  const Heads heads = {2, 1, 32};
  PagedBatch batch(rng, DType::kF32, heads, 8, {{600, 2}});
  PaddedMat out(2, batch.cols());
  PaddedMat expected(2, batch.cols());
  Context context(1, 2, batch.cols());
  ops::AttentionArgs args = batch.args(out, heads.num_heads);
  args.scale = 1000;  // scores of thousands: one position takes all
  run(context, args);
  args.out = expected;
  backends::ref::attention(*context, args);
  EXPECT_LE(relative_error(out, expected), 1e-2);
}

std::string kernel_name(const ::testing::TestParamInfo<const Kernel*>& info) {
  return std::string(info.param->name);
}
INSTANTIATE_TEST_SUITE_P(Table, AttentionKernel, ::testing::ValuesIn(runnable_kernels("attention")),
                         kernel_name);

}  // namespace
}  // namespace octavo::testing
