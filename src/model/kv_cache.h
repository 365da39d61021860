// KvCache: the physical blocks of all layers. Which block belongs to whom is the engine's business.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "octavo/status.h"
#include "ops/attention_args.h"
#include "tensor/device.h"

namespace octavo::model {

class KvCache {
 public:
  // `dtype`: as ops::PagedKv takes it. The memory is one allocation of
  // [layer][k, v][num_blocks, num_kv_heads, block_size] rows.
  static Result<KvCache> create(Device& device, const ModelConfig& config, DType dtype,
                                int64_t num_blocks, int64_t block_size);

  // Block `destination` becomes what block `source` is, in all layers.
  void copy_block(Device& device, int64_t destination, int64_t source) const;

  const ops::PagedKv& layer(int64_t index) const { return layers_[index]; }
  int64_t num_blocks() const { return layers_[0].num_blocks; }
  int64_t block_size() const { return layers_[0].block_size; }
  DType dtype() const { return layers_[0].dtype; }

 private:
  Buffer memory_;
  std::vector<ops::PagedKv> layers_;
};

}  // namespace octavo::model
