// The `post_processor` of a tokenizer.json, as far as it is about one text: what it puts around it.
#pragma once

#include <string>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

// Fills prefix and suffix. `json`: the object, or nullptr for none. A type that is not known is
// kUnsupported by its name. `source` starts every error.
Status read_post_processor(const Json* json, Vocabulary& vocabulary, const std::string& source);

}  // namespace octavo::tokenizer
