// BatchBuilder: scheduled slices of sequences -> the flat arrays of a ForwardBatch.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "octavo/status.h"
#include "tensor/device.h"

namespace octavo::engine {

class BatchBuilder {
 public:
  // `num_groups`: of KvGroups.
  BatchBuilder(Device& device, const model::ModelConfig& config, int64_t num_groups)
      : device_(device), config_(config), num_groups_(num_groups) {}

  // The result's pointers stay valid until the next build. Device memory is taken anew only when a
  // batch is larger than all before it.
  Result<model::ForwardBatch> build(std::span<const ScheduledSlice> slices, int64_t block_size,
                                    std::span<const ops::RowDraw> draws = {});

  // The last build's `draws` in device memory.
  const ops::RowDraw* draws() const { return draws_; }

 private:
  void add_slices(std::span<const ScheduledSlice> slices, int64_t block_size);
  void add_slice(const ScheduledSlice& slice);
  void add_blocks(const ScheduledSlice& slice, int64_t group, int64_t block_size);
  void add_rope_variant(const ScheduledSlice& slice);
  void forget_unused_variants();
  Status reserve(int64_t size_bytes);

  Device& device_;
  const model::ModelConfig& config_;
  int64_t num_groups_;
  std::vector<int32_t> token_ids_, positions_, cu_seqlens_q_, seq_lens_, block_table_, logit_rows_,
      hidden_rows_;
  std::vector<int64_t> slot_mapping_;  // [num_groups, num_tokens], as block_table_
  int64_t block_table_stride_ = 0;
  // Of models whose frequencies depend on a sequence's length; otherwise empty.
  std::map<int64_t, std::vector<float>> inv_freq_of_;  // [variant], of the last batches
  std::vector<int64_t> variants_;                      // of this batch, in the order of its table
  std::vector<float> rope_inv_freq_;
  std::vector<int32_t> rope_variants_;
  const ops::RowDraw* draws_ = nullptr;
  Buffer memory_;
  Buffer staging_;  // host memory from which one copy fills memory_; empty where the host can
};

}  // namespace octavo::engine
