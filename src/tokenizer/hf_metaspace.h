// HfMetaspace: the settings of "Metaspace" in a tokenizer.json: spaces are spelled by another
// character, and one is put before a text.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "octavo/status.h"

namespace octavo::tokenizer {

struct HfMetaspace {
  enum class Prepend : uint8_t {
    kNever,
    kFirst,   // before the piece at the very start of a text
    kAlways,  // before every piece
  };

  std::string replacement;
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // every replacement starts a piece

  // `source` starts every error. Files of older versions have "add_prefix_space" in place of
  // "prepend_scheme".
  static Result<HfMetaspace> from_json(const Json& json, const std::string& source);
};

}  // namespace octavo::tokenizer
