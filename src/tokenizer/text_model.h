// TextModel: the part of a tokenizer that turns plain text into ids, after special tokens have been
// cut out. One class for each kind of vocabulary; safe to use from several threads.
#pragma once

#include <string_view>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

class TextModel {
 public:
  virtual ~TextModel() = default;

  // Appends the ids of `text` (any bytes, below 4 GiB) to `ids`; never a control token, but for the
  // unknown one. `at_start`: nothing stands before the text. On an error `ids` holds some of them.
  virtual Status encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const = 0;
};

}  // namespace octavo::tokenizer
