// Which implementation of attention runs, and why: pure decisions over facts about the machine, so
// that they can be tested on any. The names are those that Hugging Face's attn_implementation made
// common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::backends {

struct AttentionFacts {
  std::string backend;         // by name, for messages
  int compute_capability = 0;  // of the GPU, 90 for sm_90; 0: the backend computes on the CPU
  int head_dim = 0;            // 0: not known yet
  int block_size = 0;          // of the KV cache; 0: not known yet
};

struct AttentionChoice {
  std::string name;    // what runs, e.g. "flash_attention_3"
  std::string reason;  // e.g. "sm_90a", "flash_attention_3: this GPU is sm_80, it needs sm_90"
};

// "flash_attention_3 (sm_90a)"
std::string describe(const AttentionChoice& choice);

// `requested`: a name of the table, or "auto" for the first of it that can run. One that cannot is
// kUnsupported and says why; an unknown one is kInvalidArgument and lists the table.
Result<AttentionChoice> choose_attention(std::string_view requested, const AttentionFacts& facts);

// "auto" and then the table, best first.
std::vector<std::string> attention_names();

}  // namespace octavo::backends
