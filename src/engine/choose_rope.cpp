#include "engine/choose_rope.h"

#include "base/format.h"

namespace octavo::engine {

void choose_rope(Sequence& sequence, const model::RopeParameters& rope) {
  if (!rope.depends_on_length()) return;
  sequence.rope_variant = model::rope_variant(rope, sequence.max_num_tokens);
  sequence.cache_extras = format("{}:{}", sequence.rope_variant, sequence.cache_extras);
}

}  // namespace octavo::engine
