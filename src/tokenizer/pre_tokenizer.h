// Pre-tokenizers: how a byte-level vocabulary cuts text into pieces before merging. THE tables of
// the names that `tokenizer.ggml.pre` may hold are in pre_tokenizer.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/split_patterns.h"

namespace octavo::tokenizer {

struct PreTokenizer {
  // Each stage cuts what the one before left, matches and gaps alike.
  std::span<const FindMatch> stages;
  bool ignore_merges = false;  // a piece that is a token becomes it, whatever the merges say
  bool add_bos = false;        // where the file does not say
  bool nfc = false;            // the text is brought to NFC first

  // Calls emit(std::string_view) for each piece from left to right; together they are the text.
  template <typename Emit>
  void split(std::string_view text, Emit&& emit) const {
    split_by(stages, text, emit);
  }

 private:
  template <typename Emit>
  static void split_by(std::span<const FindMatch> finders, std::string_view text, Emit& emit) {
    if (finders.empty()) {
      emit(text);
      return;
    }
    for (size_t pos = 0; pos < text.size();) {
      const TextSpan match = finders.front()(text, pos);
      const auto rest = finders.subspan(1);
      if (match.begin > pos) split_by(rest, text.substr(pos, match.begin - pos), emit);
      if (match.end > match.begin) {
        split_by(rest, text.substr(match.begin, match.end - match.begin), emit);
      }
      pos = match.end;
    }
  }
};

// nullptr for a name that is not known.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

// The same by regular expressions, for what has no matcher in split_patterns.h.
struct RegexPreTokenizer {
  std::span<const char* const> patterns;  // in the syntax of tokenizer.json
  bool ignore_merges = false;
  bool add_bos = false;
  bool nfc = false;
};

// nullptr for a name that is not known.
const RegexPreTokenizer* find_regex_pre_tokenizer(std::string_view name);

// Of both tables, in their order.
std::vector<std::string_view> pre_tokenizer_names();

}  // namespace octavo::tokenizer
