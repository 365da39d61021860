#include "engine/batch.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace octavo::engine {
namespace {

// Each array starts on a cache line of its own.
int64_t padded(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

template <typename Values>
int64_t bytes_of(const Values& values) {
  return static_cast<int64_t>(values.size() * sizeof(values[0]));
}

// The scheduler puts sequences that decode first.
void set_host_facts(std::span<const ScheduledSlice> slices, ops::SequenceBatch& seqs) {
  static std::atomic<uint64_t> num_steps = 0;
  seqs.step_id = ++num_steps;
  for (const ScheduledSlice& slice : slices) {
    if (slice.num_tokens > ops::kMaxShortRows) break;
    ++seqs.num_short_seqs;
    seqs.max_short_rows = std::max(seqs.max_short_rows, slice.num_tokens);
  }
}

}  // namespace

void BatchBuilder::add_slice(const ScheduledSlice& slice) {
  const Sequence& sequence = *slice.sequence;
  OCTAVO_CHECK(slice.num_tokens > 0 && slice.num_known_tokens() <= sequence.num_pending_tokens());
  const int64_t begin = sequence.num_computed_tokens;
  const int64_t end = begin + slice.num_tokens;
  OCTAVO_CHECK(slice.num_logit_rows <= slice.num_tokens);
  OCTAVO_CHECK(slice.num_hidden_rows <= slice.num_tokens);
  for (int64_t position = begin; position < end; ++position) {
    if (position >= end - slice.num_logit_rows) {
      logit_rows_.push_back(static_cast<int32_t>(token_ids_.size()));
    }
    if (position >= end - slice.num_hidden_rows) {
      hidden_rows_.push_back(static_cast<int32_t>(token_ids_.size()));
    }
    token_ids_.push_back(sequence.token_or_draft(position));
    positions_.push_back(static_cast<int32_t>(position));
  }
  cu_seqlens_q_.push_back(static_cast<int32_t>(token_ids_.size()));
  seq_lens_.push_back(static_cast<int32_t>(end));
}

void BatchBuilder::add_blocks(const ScheduledSlice& slice, int64_t group, int64_t block_size) {
  const BlockTable& table = slice.sequence->block_table;
  const int64_t num_pages = static_cast<int64_t>(table.blocks.size()) / num_groups_;
  const int64_t begin = slice.sequence->num_computed_tokens;
  const int64_t end = begin + slice.num_tokens;
  OCTAVO_CHECK(table.num_filled_pages * block_size >= end);
  const size_t row = block_table_.size();
  for (int64_t page = 0; page < num_pages; ++page) {
    block_table_.push_back(table.blocks[page * num_groups_ + group]);
  }
  for (int64_t position = begin; position < end; ++position) {
    const int64_t block = block_table_[row + position / block_size];
    slot_mapping_.push_back(block * block_size + position % block_size);
  }
  // GPU kernels read whole tiles, also of blocks before a window, whose values then do not count.
  if (!device_.host_accessible()) {
    std::replace(block_table_.begin() + static_cast<int64_t>(row), block_table_.end(), -1, 0);
  }
  block_table_.resize(row + block_table_stride_, -1);
}

// Rows of the frequency table, one for each variant in the batch.
void BatchBuilder::add_rope_variant(const ScheduledSlice& slice) {
  const int64_t variant = slice.sequence->rope_variant;
  const auto found = std::find(variants_.begin(), variants_.end(), variant);
  const auto row = static_cast<int32_t>(found - variants_.begin());
  if (found == variants_.end()) {
    std::vector<float>& inv_freq = inv_freq_of_[variant];
    if (inv_freq.empty()) {
      inv_freq = model::rope_inv_freq(config_.rope, config_.rotary_dim, variant);
    }
    variants_.push_back(variant);
    rope_inv_freq_.insert(rope_inv_freq_.end(), inv_freq.begin(), inv_freq.end());
  }
  rope_variants_.insert(rope_variants_.end(), slice.num_tokens, row);
}

// What the last batch had is likely to come again; without this, every length ever seen would stay.
void BatchBuilder::forget_unused_variants() {
  std::erase_if(inv_freq_of_, [&](const auto& entry) {
    return std::find(variants_.begin(), variants_.end(), entry.first) == variants_.end();
  });
}

void BatchBuilder::add_slices(std::span<const ScheduledSlice> slices, int64_t block_size) {
  for (auto* array : {&token_ids_, &positions_, &cu_seqlens_q_, &seq_lens_, &block_table_,
                      &logit_rows_, &hidden_rows_}) {
    array->clear();
  }
  slot_mapping_.clear();
  cu_seqlens_q_.push_back(0);
  block_table_stride_ = 0;
  for (const ScheduledSlice& slice : slices) {
    const auto blocks = static_cast<int64_t>(slice.sequence->block_table.blocks.size());
    block_table_stride_ = std::max(block_table_stride_, blocks / num_groups_);
  }
  // Steps with a table of one shape can be repeated from a record.
  if (!device_.host_accessible()) {
    block_table_stride_ =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(block_table_stride_)));
  }
  for (const ScheduledSlice& slice : slices) add_slice(slice);
  for (int64_t group = 0; group < num_groups_; ++group) {
    for (const ScheduledSlice& slice : slices) add_blocks(slice, group, block_size);
  }
  variants_.clear();
  rope_inv_freq_.clear();
  rope_variants_.clear();
  if (config_.rope.depends_on_length()) {
    for (const ScheduledSlice& slice : slices) add_rope_variant(slice);
    forget_unused_variants();
  }
}

Result<model::ForwardBatch> BatchBuilder::build(std::span<const ScheduledSlice> slices,
                                                int64_t block_size,
                                                std::span<const ops::RowDraw> draws) {
  add_slices(slices, block_size);
  int64_t total_bytes = padded(bytes_of(slot_mapping_)) + padded(bytes_of(rope_inv_freq_)) +
                        padded(bytes_of(rope_variants_)) + padded(bytes_of(draws));
  for (const auto* array : {&token_ids_, &positions_, &cu_seqlens_q_, &seq_lens_, &block_table_,
                            &logit_rows_, &hidden_rows_}) {
    total_bytes += padded(bytes_of(*array));
  }
  OCTAVO_TRY(reserve(total_bytes));
  std::byte* const staging =
      device_.host_accessible() ? memory_.as<std::byte>() : staging_.as<std::byte>();
  int64_t used_bytes = 0;
  const auto upload = [&](const auto& values) {
    const int64_t begin = used_bytes;
    if (!values.empty()) std::memcpy(staging + begin, values.data(), bytes_of(values));
    used_bytes += padded(bytes_of(values));
    return reinterpret_cast<decltype(values.data())>(memory_.as<std::byte>() + begin);
  };
  model::ForwardBatch batch;
  batch.token_ids = upload(token_ids_);
  batch.seqs.num_tokens = static_cast<int64_t>(token_ids_.size());
  batch.seqs.num_seqs = static_cast<int64_t>(slices.size());
  batch.seqs.cu_seqlens_q = upload(cu_seqlens_q_);
  batch.seqs.seq_lens = upload(seq_lens_);
  batch.seqs.block_table = upload(block_table_);
  batch.seqs.block_table_stride = block_table_stride_;
  batch.seqs.slot_mapping = upload(slot_mapping_);
  batch.seqs.positions = upload(positions_);
  set_host_facts(slices, batch.seqs);
  batch.logit_rows = upload(logit_rows_);
  batch.num_logit_rows = static_cast<int64_t>(logit_rows_.size());
  batch.hidden_rows = upload(hidden_rows_);
  batch.num_hidden_rows = static_cast<int64_t>(hidden_rows_.size());
  if (!rope_variants_.empty()) {
    batch.rope_inv_freq = upload(rope_inv_freq_);
    batch.rope_variants = upload(rope_variants_);
  }
  draws_ = upload(draws);
  if (!device_.host_accessible()) {
    device_.copy_pinned_to_device(memory_.data.get(), staging, used_bytes);
  }
  return batch;
}

Status BatchBuilder::reserve(int64_t size_bytes) {
  if (memory_.size_bytes >= size_bytes) return {};
  if (!device_.host_accessible()) {
    staging_ = OCTAVO_TRY(device_.allocate_pinned(2 * size_bytes, "batch metadata"));
  }
  memory_ = OCTAVO_TRY(device_.allocate(2 * size_bytes, "batch metadata"));
  return {};
}

}  // namespace octavo::engine
