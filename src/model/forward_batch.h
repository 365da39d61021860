// What the engine hands to a model for one step: flat tokens and attention metadata.
#pragma once

#include <cstdint>

#include "ops/attention_args.h"

namespace octavo::model {

// All pointers are device memory. Of `seqs`, block_table and slot_mapping are those of group 0 of
// KvGroups; of_group() has the others. The rope_ members are set where ModelConfig::rope depends on
// the length: row rope_variants[t] of rope_inv_freq has the frequencies of token t's sequence.
struct ForwardBatch {
  const int32_t* token_ids = nullptr;  // [seqs.num_tokens]
  ops::SequenceBatch seqs;
  const int32_t* logit_rows = nullptr;   // [num_logit_rows]: rows of which logits are wanted
  int64_t num_logit_rows = 0;            // may be 0: only fill the KV cache
  const int32_t* hidden_rows = nullptr;  // [num_hidden_rows]: rows whose hidden state is wanted
  int64_t num_hidden_rows = 0;
  const float* rope_inv_freq = nullptr;    // [num_variants, rotary_dim / 2]
  const int32_t* rope_variants = nullptr;  // [seqs.num_tokens]

  // Block tables and slot mappings lie one group's behind another's.
  ops::SequenceBatch of_group(int64_t group) const {
    ops::SequenceBatch result = seqs;
    result.block_table += group * seqs.num_seqs * seqs.block_table_stride;
    result.slot_mapping += group * seqs.num_tokens;
    return result;
  }
};

}  // namespace octavo::model
