#include "model/kv_cache.h"

#include "base/check.h"
#include "base/format.h"

namespace octavo::model {

Result<KvCache> KvCache::create(Device& device, const ModelConfig& config, const KvGroups& groups,
                                DType dtype, int64_t num_blocks, int64_t block_size) {
  OCTAVO_CHECK(num_blocks > 0 && block_size > 0);
  const int64_t part_bytes = num_blocks * block_size * config.num_key_value_heads *
                             ops::kv_row_bytes(dtype, config.head_dim);
  KvCache cache;
  cache.groups_ = groups;
  cache.memory_ = OCTAVO_TRY(
      device.allocate(2 * groups.layers_per_block * part_bytes,
                      format("the KV cache of {} blocks of {} tokens", num_blocks, block_size)));
  for (int64_t i = 0; i < groups.layers_per_block; ++i) {
    std::byte* k = cache.memory_.as<std::byte>() + 2 * i * part_bytes;
    cache.slots_.push_back({k, k + part_bytes, dtype, num_blocks, block_size,
                            config.num_key_value_heads, config.head_dim});
  }
  return cache;
}

void KvCache::copy_block(Device& device, int64_t destination, int64_t source) const {
  for (const ops::PagedKv& slot : slots_) {
    const int64_t block_bytes = slot.block_bytes();
    for (void* part : {slot.k, slot.v}) {
      auto* bytes = static_cast<std::byte*>(part);
      device.copy_on_device(bytes + destination * block_bytes, bytes + source * block_bytes,
                            block_bytes);
    }
  }
}

}  // namespace octavo::model
