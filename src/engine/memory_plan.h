// How large the KV cache is to be, and what a person is told of it. Computes only; what the machine
// and the model are comes in as numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/attention_span.h"
#include "octavo/engine.h"
#include "octavo/status.h"

namespace octavo::engine {

struct MemoryFacts {
  int64_t available_bytes = 0;  // 0: unknown
  int64_t weight_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t kv_block_bytes = 0;
  int64_t max_model_len = 0;  // of the model, or as the user wants it
  std::vector<model::AttentionSpan> spans = {model::AttentionSpan()};  // of each group of layers
  bool gpu = false;  // available_bytes are a GPU's, which nothing else needs
};

struct MemoryPlan {
  MemoryFacts facts;
  int64_t block_size = 0;
  int64_t num_blocks = 0;
  int64_t num_tokens = 0;     // of sequences of which nothing is given back
  int64_t max_model_len = 0;  // what the KV cache can hold of one sequence, at most the facts'

  int64_t kv_bytes() const { return num_blocks * facts.kv_block_bytes; }
};

// Whether the numbers of a configuration make sense; the error names the field.
Status check_engine_config(const EngineConfig& config);

// `config` must be checked. Where the KV cache is too small for the context that the user asked
// for, the error says what would fit.
Result<MemoryPlan> plan_memory(const EngineConfig& config, const MemoryFacts& facts);

// A line for each part: weights, workspace, KV cache, what is left.
std::string describe(const MemoryPlan& plan);

}  // namespace octavo::engine
