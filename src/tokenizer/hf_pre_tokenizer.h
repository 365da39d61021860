// HfPreTokenizer: the `pre_tokenizer` of a byte-level tokenizer.json: splits by pattern, each of
// what the one before left, and at last ByteLevel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/hf_pattern.h"

namespace octavo::tokenizer {

class HfPreTokenizer {
 public:
  // A type that is not known is kUnsupported by its name, and so is one without ByteLevel at its
  // end. `source` starts every error.
  static Result<HfPreTokenizer> from_json(const Json* json, const std::string& source);

  // Calls emit(std::string_view) for each piece from left to right.
  template <typename Emit>
  Status split(std::string_view text, Emit&& emit) const {
    std::vector<TextSpan> pieces;
    OCTAVO_TRY(split_by_patterns(text, pieces));
    std::string spaced;
    for (const TextSpan& piece : pieces) {
      const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
      if (add_prefix_space_ && part.front() != ' ') {
        spaced.assign(1, ' ').append(part);
        emit_words(spaced, emit);
      } else {
        emit_words(part, emit);
      }
    }
    return {};
  }

 private:
  // What becomes of the matches of a pattern.
  enum class Behaviour { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Stage {
    HfPattern pattern;
    Behaviour behaviour;
    bool invert;  // matches and what is between them change places
  };
  struct Part {
    TextSpan span;
    bool is_match;
  };

  static Result<Behaviour> read_behaviour(const Json& json, const std::string& source);
  static void merge_parts(Behaviour behaviour, std::vector<Part>& parts);

  Status add(const Json& json, const std::string& source);
  Status add_byte_level(const Json& json, const std::string& source);
  Status add_split(const Json& json, const std::string& source);
  // Appends the pieces, none of which is empty.
  Status split_by_patterns(std::string_view text, std::vector<TextSpan>& pieces) const;

  template <typename Emit>
  void emit_words(std::string_view part, Emit& emit) const {
    if (!words_) return emit(part);
    for (size_t pos = 0; pos < part.size();) {
      const TextSpan word = find_gpt2(part, pos);
      emit(part.substr(word.begin, word.end - word.begin));
      pos = word.end;
    }
  }

  std::vector<Stage> stages_;
  bool byte_level_ = false;
  bool add_prefix_space_ = false;
  bool words_ = false;  // ByteLevel cuts by GPT-2's pattern
};

}  // namespace octavo::tokenizer
