#include "model/kv_groups.h"

#include <algorithm>

#include "model/config.h"

namespace octavo::model {
namespace {

// Each group costs a step a look at every sequence. Blocks are so large that there are not many
// more than this, even if that leaves some of their room unused.
constexpr int64_t kManyGroups = 8;

struct Kind {
  AttentionSpan span;
  std::vector<int64_t> layers;
};

AttentionSpan span_of(const LayerConfig& layer, int64_t max_tokens) {
  if (layer.sliding_window > 0) {
    return layer.sliding_window < max_tokens ? AttentionSpan{.window = layer.sliding_window}
                                             : AttentionSpan();
  }
  const int64_t chunk = layer.attention_chunk_size;
  return chunk > 0 && chunk < max_tokens ? AttentionSpan{.chunk = chunk} : AttentionSpan();
}

std::vector<Kind> kinds_of(const ModelConfig& config, int64_t max_tokens) {
  std::vector<Kind> kinds;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const AttentionSpan span = span_of(config.layers[i], max_tokens);
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Kind& known) { return known.span == span; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {span, {}});
    kind->layers.push_back(i);
  }
  return kinds;
}

}  // namespace

KvGroups group_layers(const ModelConfig& config, int64_t max_tokens) {
  const std::vector<Kind> kinds = kinds_of(config, max_tokens);
  int64_t fewest = config.num_hidden_layers;
  for (const Kind& kind : kinds) {
    fewest = std::min(fewest, static_cast<int64_t>(kind.layers.size()));
  }
  KvGroups groups;
  groups.layers_per_block =
      std::max(fewest, (config.num_hidden_layers + kManyGroups - 1) / kManyGroups);
  groups.places.resize(config.num_hidden_layers);
  for (const Kind& kind : kinds) {
    int32_t slot = 0;
    for (const int64_t layer : kind.layers) {
      if (slot == 0) groups.spans.push_back(kind.span);
      groups.places[layer] = {static_cast<int32_t>(groups.spans.size()) - 1, slot};
      slot = (slot + 1) % static_cast<int32_t>(groups.layers_per_block);
    }
  }
  return groups;
}

KvGroups one_group(const ModelConfig& config) {
  KvGroups groups{config.num_hidden_layers, {AttentionSpan()}, {}};
  for (int32_t i = 0; i < config.num_hidden_layers; ++i) groups.places.push_back({0, i});
  return groups;
}

}  // namespace octavo::model
