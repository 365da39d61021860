// HfDecoder: the `decoder` of a tokenizer.json, as far as it is about one token: which bytes its
// spelling stands for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "octavo/status.h"

namespace octavo::tokenizer {

class HfDecoder {
 public:
  // `json`: the object, or nullptr for none. A type that is not known is kUnsupported by its name,
  // and so is a setting that looks beyond one token. `source` starts every error.
  static Result<HfDecoder> from_json(const Json* json, const std::string& source);

  // One space at the start of a text is left out.
  bool strips_first_space() const { return strips_first_space_; }
  std::string bytes_of(std::string_view piece) const;

 private:
  Status add(const Json& json, const std::string& source);
  Status add_replace(const Json& json, const std::string& source);
  Status add_strip(const Json& json, const std::string& source);
  Status add_metaspace(const Json& json, const std::string& source);
  Status add_word_piece(const Json& json, const std::string& source);

  struct WordPiece {
    std::string prefix;  // of tokens that go on with a word
    bool cleanup;
  };
  std::optional<WordPiece> word_piece_;
  std::vector<std::pair<std::string, std::string>> replacements_;
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  bool strips_first_space_ = false;
};

}  // namespace octavo::tokenizer
