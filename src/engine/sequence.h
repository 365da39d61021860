// Sequence: one generation in progress: its tokens, and how far its KV cache reaches.
#pragma once

#include <cstdint>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::engine {

struct Sequence {
  std::vector<TokenId> token_ids;    // prompt, then what was generated
  int64_t num_computed_tokens = 0;   // of these, keys and values are in the cache
  std::vector<int32_t> block_table;  // logical page -> physical block
  int64_t rope_variant = 0;  // model::rope_variant of the length it may reach; never changes

  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
  int64_t num_pending_tokens() const { return num_tokens() - num_computed_tokens; }
};

}  // namespace octavo::engine
