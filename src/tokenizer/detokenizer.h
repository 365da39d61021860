// Text as it is generated: Detokenizer turns tokens into text token by token, StopStringFilter
// holds text back until it cannot be a part of a stop string any more.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

// The concatenation of everything that push() and flush() return is what Tokenizer::decode gives
// for all the ids at once. Never returns a part of a character.
class Detokenizer {
 public:
  // `tokenizer` must outlive it. `show_special`: see Tokenizer::decode. `keep_first_space`: unlike
  // there, a space at the very start is text.
  explicit Detokenizer(const Tokenizer& tokenizer, bool show_special = false,
                       bool keep_first_space = false)
      : tokenizer_(tokenizer),
        show_special_(show_special),
        skip_space_(!keep_first_space && tokenizer.has_space_prefix()) {}

  // The text that `id` completes; often "" within a character of several tokens.
  std::string push(TokenId id);

  // At the end: U+FFFD where the last character was never completed.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool show_special_;
  bool skip_space_;      // nothing was returned yet, and a space there is not part of the text
  std::string pending_;  // the bytes of a character that is not complete
};

// Finds the stop string that is complete first, as one would who reads the text byte by byte; of
// several complete at the same byte the longest. How the text is divided into push() calls makes no
// difference.
class StopStringFilter {
 public:
  // Empty strings are ignored.
  explicit StopStringFilter(std::vector<std::string> stop_strings);

  // Takes the next text; returns what may be shown now. Once a stop string is complete, this is
  // everything before it, and every later call returns "". With `may_stop` false, a stop string
  // that is complete within `text` is passed over; one that begins there may end later.
  std::string push(std::string_view text, bool may_stop = true);

  // At the end of a text that was not stopped: what was still held back.
  std::string flush();

  // The index of the stop string that was found, in the list given.
  std::optional<size_t> matched() const { return matched_; }

 private:
  struct Matcher {
    std::string text;
    std::vector<size_t> borders;  // [n]: the longest proper prefix of text[0, n) that ends it too
    size_t matched_bytes = 0;     // the longest prefix of text that ends what was pushed
    void push(char c);
    bool complete() const { return matched_bytes == text.size(); }
  };

  std::vector<Matcher> matchers_;
  std::string held_;
  std::optional<size_t> matched_;
};

}  // namespace octavo::tokenizer
