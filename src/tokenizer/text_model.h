// TextModel: the part of a tokenizer that turns plain text into ids, after special tokens have been
// cut out. One class for each kind of vocabulary; safe to use from several threads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

// What stands before a text that is encoded.
enum class Before : uint8_t { kNothing, kControlToken, kTextToken };

class TextModel {
 public:
  virtual ~TextModel() = default;

  // Appends the ids of `text` (any bytes, below 4 GiB) to `ids`; never a control token, but for the
  // unknown one. On an error `ids` holds some of them.
  virtual Status encode(std::string_view text, Before before, std::vector<TokenId>& ids) const = 0;
};

}  // namespace octavo::tokenizer
