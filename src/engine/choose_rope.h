// Which rotary frequencies a sequence has, where they depend on its length.
#pragma once

#include "engine/sequence.h"
#include "model/rope.h"

namespace octavo::engine {

// For its whole life, by the longest that it may become. Keys that were rotated otherwise are not
// the keys of the same text.
void choose_rope(Sequence& sequence, const model::RopeParameters& rope);

}  // namespace octavo::engine
