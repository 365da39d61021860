#include "engine/attention_span.h"

#include "model/config.h"

namespace octavo::engine {

AttentionSpan attention_span(const model::ModelConfig& config) {
  int64_t window = 0;
  const int64_t chunk = config.layers[0].attention_chunk_size;
  bool all_windows = true;
  bool all_chunks = chunk > 0;
  for (const model::LayerConfig& layer : config.layers) {
    window = std::max(window, layer.sliding_window);
    all_windows = all_windows && layer.sliding_window > 0;
    all_chunks = all_chunks && layer.attention_chunk_size == chunk;
  }
  if (all_windows) return {.window = window};
  if (all_chunks) return {.chunk = chunk};
  return {};
}

}  // namespace octavo::engine
