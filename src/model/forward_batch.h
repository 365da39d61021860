// What the engine hands to a model for one step: flat tokens and attention metadata.
#pragma once

#include <cstdint>

#include "ops/attention_args.h"

namespace octavo::model {

// All pointers are device memory.
struct ForwardBatch {
  const int32_t* token_ids = nullptr;  // [seqs.num_tokens]
  ops::SequenceBatch seqs;
  const int32_t* logit_rows = nullptr;  // [num_logit_rows]: rows of which logits are wanted
  int64_t num_logit_rows = 0;           // may be 0: only fill the KV cache
};

}  // namespace octavo::model
