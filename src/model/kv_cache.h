// KvCache: the physical blocks of all layers. Which block belongs to whom is the engine's business.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/kv_groups.h"
#include "octavo/status.h"
#include "ops/attention_args.h"
#include "tensor/device.h"

namespace octavo::model {

class KvCache {
 public:
  // `dtype`: as ops::PagedKv takes it. The memory is one allocation of
  // [slot][k, v][num_blocks, num_kv_heads, block_size] rows, a slot for each layer of a block.
  static Result<KvCache> create(Device& device, const ModelConfig& config, const KvGroups& groups,
                                DType dtype, int64_t num_blocks, int64_t block_size);

  // Block `destination` becomes what block `source` is, in all its layers.
  void copy_block(Device& device, int64_t destination, int64_t source) const;

  // Groups never share a block, and so layers may share this.
  const ops::PagedKv& layer(int64_t index) const { return slots_[groups_.places[index].slot]; }
  // Whose block table is that of the layer.
  int64_t group(int64_t index) const { return groups_.places[index].group; }

  int64_t num_blocks() const { return slots_[0].num_blocks; }
  int64_t block_size() const { return slots_[0].block_size; }
  DType dtype() const { return slots_[0].dtype; }

 private:
  Buffer memory_;
  KvGroups groups_;
  std::vector<ops::PagedKv> slots_;
};

}  // namespace octavo::model
