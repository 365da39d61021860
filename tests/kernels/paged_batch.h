// A ragged batch over a paged cache for tests of attention: shuffled blocks, NaN wherever nothing
// may be read.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "kernel_test_util.h"
#include "tensor/float16.h"

namespace octavo::testing {

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

  // Sets what rows see, and, where it `poisons`, takes from the cache and the block table what no
  // row of a sequence does.
  void set_mask(const Mask& mask, bool poisons = true) {
    mask_ = mask;
    if (!poisons) return;
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

}  // namespace octavo::testing
