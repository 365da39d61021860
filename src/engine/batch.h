// BatchBuilder: scheduled slices of sequences -> the flat arrays of a ForwardBatch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/forward_batch.h"
#include "octavo/status.h"
#include "tensor/device.h"

namespace octavo::engine {

class BatchBuilder {
 public:
  explicit BatchBuilder(Device& device) : device_(device) {}

  // The result's pointers stay valid until the next build. Device memory is taken anew only when a
  // batch is larger than all before it.
  Result<model::ForwardBatch> build(std::span<const ScheduledSlice> slices, int64_t block_size);

 private:
  void add_slice(const ScheduledSlice& slice, int64_t block_size);

  Device& device_;
  std::vector<int32_t> token_ids_, positions_, cu_seqlens_q_, seq_lens_, block_table_, logit_rows_;
  std::vector<int64_t> slot_mapping_;
  int64_t block_table_stride_ = 0;
  Buffer memory_;
};

}  // namespace octavo::engine
