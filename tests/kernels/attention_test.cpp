// Every attention kernel of the table: against the oracle on random paged caches, and the promise
// that a row's bits depend on nothing but its own sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backends/cpu/attention.h"
#include "kernel_test_util.h"
#include "tensor/float16.h"
#include "tolerance.h"

namespace octavo::testing {
namespace {

using backends::cpu::Kernel;

struct Heads {
  int64_t num_heads;
  int64_t num_kv_heads;
  int64_t head_dim;
};

// A sequence: `length` positions in the cache, the last `rows` of which are queries.
struct Sequence {
  int64_t length;
  int64_t rows;
};

struct Mask {
  int64_t window = 0;
  int64_t chunk = 0;
  float softcap = 0;
};

// A batch over a cache whose blocks are shuffled and whose unused slots are NaN.
class PagedBatch {
 public:
  PagedBatch(Rng& rng, DType dtype, Heads heads, int64_t block_size,
             const std::vector<Sequence>& sequences)
      : sequences_(sequences) {
    int64_t blocks = 3;  // some that nobody uses
    cu_seqlens_ = {0};
    for (const Sequence& s : sequences) {
      const int64_t used = (s.length + block_size - 1) / block_size;
      blocks += used;
      table_stride_ = std::max(table_stride_, used + 2);
      cu_seqlens_.push_back(cu_seqlens_.back() + static_cast<int32_t>(s.rows));
      lengths_.push_back(static_cast<int32_t>(s.length));
    }
    std::vector<int32_t> free(blocks);
    std::iota(free.begin(), free.end(), 0);
    for (int64_t i = blocks - 1; i > 0; --i) std::swap(free[i], free[random_int(rng, 0, i + 1)]);

    const int64_t values = blocks * heads.num_kv_heads * block_size * heads.head_dim;
    k_.assign(values, kNan);
    v_.assign(values, kNan);
    kv_ = {k_.data(),  v_.data(),          DType::kF32,   blocks,
           block_size, heads.num_kv_heads, heads.head_dim};
    table_.assign(sequences.size() * table_stride_, INT32_MIN);  // entries that may not be read
    for (size_t s = 0; s < sequences.size(); ++s) fill_sequence(rng, s, free);
    if (dtype != DType::kF32) narrow(dtype);
    q_ = std::make_unique<PaddedMat>(
        PaddedMat::random(rng, cu_seqlens_.back(), heads.num_heads * heads.head_dim));
  }

  // Sets what rows see, and takes from the cache and the block table what no row of a sequence
  // does.
  void set_mask(const Mask& mask) {
    mask_ = mask;
    PaddedMat none(1, 1);
    const ops::AttentionArgs a = args(none, kv_.num_kv_heads);
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const int64_t first = a.first_visible(sequences_[s].length - sequences_[s].rows);
      for (int64_t p = 0; p < first; ++p) poison(s, p);
      for (int64_t b = 0; b < first / kv_.block_size; ++b) {
        table_[s * table_stride_ + b] = INT32_MIN;
      }
    }
  }

  ops::AttentionArgs args(const PaddedMat& out, int64_t num_heads) const {
    return {out, *q_, kv_, batch(), num_heads, 0.25f, mask_.window, mask_.chunk, mask_.softcap};
  }

  // The same with only sequence `s`, and of it only rows [begin, end): what a chunk sees.
  ops::AttentionArgs chunk(const PaddedMat& out, int64_t num_heads, size_t s, int64_t begin,
                           int64_t end) {
    chunk_cu_seqlens_ = {0, static_cast<int32_t>(end - begin)};
    chunk_length_ = static_cast<int32_t>(sequences_[s].length - sequences_[s].rows + end);
    ops::AttentionArgs a = args(out, num_heads);
    a.q.data = a.q.row<float>(cu_seqlens_[s] + begin);
    a.q.rows = end - begin;
    a.batch.num_tokens = end - begin;
    a.batch.num_seqs = 1;
    a.batch.cu_seqlens_q = chunk_cu_seqlens_.data();
    a.batch.seq_lens = &chunk_length_;
    a.batch.block_table += static_cast<int64_t>(s) * table_stride_;
    return a;
  }

  int64_t num_tokens() const { return cu_seqlens_.back(); }
  int64_t first_row(size_t s) const { return cu_seqlens_[s]; }
  int64_t cols() const { return q_->mat().cols; }

 private:
  ops::SequenceBatch batch() const {
    ops::SequenceBatch b;
    b.num_tokens = cu_seqlens_.back();
    b.num_seqs = static_cast<int64_t>(lengths_.size());
    b.cu_seqlens_q = cu_seqlens_.data();
    b.seq_lens = lengths_.data();
    b.block_table = table_.data();
    b.block_table_stride = table_stride_;
    return b;
  }

  void fill_sequence(Rng& rng, size_t s, std::vector<int32_t>& free) {
    for (int64_t p = 0; p < sequences_[s].length; ++p) {
      int32_t& block = table_[s * table_stride_ + p / kv_.block_size];
      if (p % kv_.block_size == 0) {
        block = free.back();
        free.pop_back();
      }
      for (int64_t h = 0; h < kv_.num_kv_heads; ++h) {
        const int64_t row = (block * kv_.num_kv_heads + h) * kv_.block_size + p % kv_.block_size;
        for (int64_t d = 0; d < kv_.head_dim; ++d) {
          k_[row * kv_.head_dim + d] = random_normal(rng);
          v_[row * kv_.head_dim + d] = random_normal(rng);
        }
      }
    }
  }

  void poison(size_t s, int64_t p) {
    const int64_t block = table_[s * table_stride_ + p / kv_.block_size];
    for (int64_t h = 0; h < kv_.num_kv_heads; ++h) {
      for (void* part : {kv_.k, kv_.v}) {  // all bits set are a NaN, of a scale too
        std::memset(kv_.row(part, block, h, p % kv_.block_size), 0xFF, kv_.row_bytes());
      }
    }
  }

  void narrow(DType dtype) {
    kv_.dtype = dtype;
    kv_.k = narrow(k_, narrow_k_);
    kv_.v = narrow(v_, narrow_v_);
  }

  void* narrow(const std::vector<float>& values, std::vector<uint8_t>& rows) const {
    for (size_t i = 0; i < values.size(); i += kv_.head_dim) {
      const float* row = &values[i];
      rows.resize(rows.size() + kv_.row_bytes());
      uint8_t* bytes = &rows[rows.size() - kv_.row_bytes()];
      if (kv_.dtype == DType::kI8) {
        // Of a slot that no token was written to the scale is NaN and every code -128.
        const float scale = std::fabs(row[0]) / 64;
        for (int64_t d = 0; d < kv_.head_dim; ++d) {
          const double code = std::clamp(std::nearbyint(row[d] / scale), -127.0f, 127.0f);
          bytes[d] = std::isnan(scale) ? 0x80 : static_cast<uint8_t>(static_cast<int>(code));
        }
        std::memcpy(bytes + kv_.head_dim, &scale, sizeof(scale));
        continue;
      }
      for (int64_t d = 0; d < kv_.head_dim; ++d) {
        const auto convert = kv_.dtype == DType::kF16 ? float_to_fp16 : float_to_bf16;
        const uint16_t half = convert(row[d]);
        std::memcpy(bytes + 2 * d, &half, sizeof(half));
      }
    }
    return rows.data();
  }

  std::vector<Sequence> sequences_;
  Mask mask_;
  std::vector<int32_t> cu_seqlens_;
  std::vector<int32_t> lengths_;
  std::vector<int32_t> table_;
  int64_t table_stride_ = 0;
  std::vector<float> k_;
  std::vector<float> v_;
  std::vector<uint8_t> narrow_k_;
  std::vector<uint8_t> narrow_v_;
  ops::PagedKv kv_;
  std::unique_ptr<PaddedMat> q_;
  std::vector<int32_t> chunk_cu_seqlens_;
  int32_t chunk_length_ = 0;
};

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
