// HfPreTokenizer: the `pre_tokenizer` of a tokenizer.json: splits by pattern, each of what the one
// before left, and at last ByteLevel or Metaspace, where there is one.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "octavo/status.h"
#include "tokenizer/hf_metaspace.h"
#include "tokenizer/hf_pattern.h"

namespace octavo::tokenizer {

class HfPreTokenizer {
 public:
  // `json`: the object, or nullptr for none. A type that is not known is kUnsupported by its name,
  // and so is one behind ByteLevel or Metaspace. `source` starts every error.
  static Result<HfPreTokenizer> from_json(const Json* json, const std::string& source);

  // Splits by each of `patterns`, and then no more: the pieces of a byte-level vocabulary.
  static Result<HfPreTokenizer> byte_level(std::span<const char* const> patterns,
                                           const std::string& source);

  // Pieces are bytes, which the model spells in the alphabet of byte_level.h.
  bool is_byte_level() const { return last_ == Last::kByteLevel; }

  // Calls emit(std::string_view) for each piece from left to right. `at_start`: nothing stands
  // before the text.
  template <typename Emit>
  Status split(std::string_view text, bool at_start, Emit&& emit) const {
    std::vector<TextSpan> pieces;
    OCTAVO_TRY(split_by_patterns(text, pieces));
    std::string changed;
    for (const TextSpan& piece : pieces) {
      std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
      if (last_ == Last::kByteLevel) {
        if (add_prefix_space_ && part.front() != ' ') {
          part = changed.assign(1, ' ').append(part);
        }
        emit_words(part, emit);
      } else if (last_ == Last::kMetaspace) {
        replace_spaces(part, at_start && piece.begin == 0, changed);
        emit_spaced_words(changed, emit);
      } else {
        emit(part);
      }
    }
    return {};
  }

 private:
  // What follows the splits by pattern.
  enum class Last { kNothing, kByteLevel, kMetaspace };
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
  Status add_stage(const std::string& type, const Json& json, const std::string& source);
  Status add_split(const Json& json, const std::string& source);
  // Appends the pieces, none of which is empty.
  Status split_by_patterns(std::string_view text, std::vector<TextSpan>& pieces) const;

  // `part` as Metaspace spells it.
  void replace_spaces(std::string_view part, bool at_start, std::string& out) const;

  template <typename Emit>
  void emit_spaced_words(std::string_view text, Emit& emit) const {
    const std::string& start = metaspace_.replacement;
    while (!text.empty()) {
      const size_t end = metaspace_.split ? text.find(start, 1) : std::string_view::npos;
      emit(text.substr(0, end));
      text.remove_prefix(std::min(end, text.size()));
    }
  }

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
  Last last_ = Last::kNothing;
  HfMetaspace metaspace_;
  bool add_prefix_space_ = false;
  bool words_ = false;  // ByteLevel cuts by GPT-2's pattern
};

}  // namespace octavo::tokenizer
