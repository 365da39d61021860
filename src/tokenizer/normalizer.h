// Normalizer: what the `normalizer` of a tokenizer.json does to a text before it is cut.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/hf_pattern.h"
#include "tokenizer/unicode.h"

namespace octavo::tokenizer {

class Normalizer {
 public:
  // `json`: the object, or nullptr for none. A type that is not known is kUnsupported by its name.
  // `source` starts every error.
  static Result<Normalizer> from_json(const Json* json, const std::string& source);

  // `text` may be any bytes; those that are not UTF-8 stay as they are.
  Status apply(std::string& text) const;

  bool empty() const { return steps_.empty(); }

 private:
  struct CleanText {};             // no controls, and every white space a space
  struct SpaceChinese {};          // a space on either side of each Chinese character
  struct StripNonspacingMarks {};  // what an NFD leaves of most accents
  struct Lowercase {};
  struct StripAccents {};
  struct Strip {
    bool left;
    bool right;
  };
  struct Prepend {
    std::string text;
  };
  struct Replace {
    HfPattern pattern;
    std::string by;
  };
  using Step = std::variant<NormalForm, CleanText, SpaceChinese, StripNonspacingMarks, Lowercase,
                            StripAccents, Strip, Prepend, Replace, CharsMap>;

  Status add(const Json& json, const std::string& source);
  Status add_bert(const Json& json, const std::string& source);

  static Status apply_step(NormalForm form, std::string& text);
  static Status apply_step(CleanText, std::string& text);
  static Status apply_step(SpaceChinese, std::string& text);
  static Status apply_step(StripNonspacingMarks, std::string& text);
  static Status apply_step(Lowercase, std::string& text);
  static Status apply_step(StripAccents, std::string& text);
  static Status apply_step(Strip strip, std::string& text);
  static Status apply_step(const Prepend& prepend, std::string& text);
  static Status apply_step(const Replace& replace, std::string& text);
  static Status apply_step(const CharsMap& map, std::string& text);

  std::vector<Step> steps_;
};

}  // namespace octavo::tokenizer
