// KvGroups: which layers share a block table. Layers of a group look back equally far, so that what
// one no longer sees, none does. A block of the KV cache holds keys and values of as many layers in
// every group: one pool of equal blocks then serves all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/attention_span.h"

namespace octavo::model {

struct ModelConfig;

struct KvGroups {
  // Where a layer's keys and values are: `slot` counts the layers of a block.
  struct Place {
    int32_t group = 0;
    int32_t slot = 0;
  };

  int64_t layers_per_block = 0;      // the last group of a kind may use fewer
  std::vector<AttentionSpan> spans;  // [num_groups]
  std::vector<Place> places;         // [num_hidden_layers]

  int64_t num_groups() const { return static_cast<int64_t>(spans.size()); }
};

// For sequences of up to `max_tokens` tokens; a window that is no shorter is none. Models whose
// layers are all alike have one group.
KvGroups group_layers(const ModelConfig& config, int64_t max_tokens);

// All layers in a group from which nothing is ever given back.
KvGroups one_group(const ModelConfig& config);

}  // namespace octavo::model
