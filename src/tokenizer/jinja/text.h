// Text with taint: which bytes of a string came from the caller's data. Spans are ascending, not
// empty, and neither overlap nor touch.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/tokenizer.h"

namespace octavo::tokenizer::jinja {

// An immutable string. Text and spans live in a Heap, in the template or in the caller's JSON.
struct Str {
  std::string_view text;
  std::span<const TextSpan> taint;
  bool markup = false;  // Python's Markup: made by `safe` and `escape`
};

// Those of `spans` that share a byte with [begin, end).
std::span<const TextSpan> spans_within(std::span<const TextSpan> spans, size_t begin, size_t end);

// A growing text. Appended strings keep their taint.
class TextBuilder {
 public:
  void append(std::string_view clean) { text_ += clean; }
  void append(char clean) { text_ += clean; }
  void append(const Str& s) { append(s, 0, s.text.size()); }
  void append(const Str& s, size_t begin, size_t end);
  void append_marked(std::string_view text, bool tainted);
  void append_repeated(char clean, size_t count) { text_.append(count, clean); }

  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  const std::vector<TextSpan>& taint() const { return taint_; }
  std::string take_text() { return std::move(text_); }
  std::vector<TextSpan> take_taint() { return std::move(taint_); }

 private:
  void mark(size_t begin, size_t end);

  std::string text_;
  std::vector<TextSpan> taint_;
};

// Walks a string's characters in order and says of each whether it is tainted.
class TaintCursor {
 public:
  explicit TaintCursor(const Str& s) : spans_(s.taint) {}
  // `offset` must not decrease from call to call.
  bool at(size_t offset) {
    while (next_ < spans_.size() && spans_[next_].end <= offset) ++next_;
    return next_ < spans_.size() && spans_[next_].begin <= offset;
  }

 private:
  std::span<const TextSpan> spans_;
  size_t next_ = 0;
};

// As string_view::find, but linear in the worst case too.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);

// Code points: Python's len() and indices. A byte that is not part of a valid character counts as
// the character that decoding gives for it.
size_t char_count(std::string_view text);
// The byte offset of character `index`, or text.size() where the text is shorter.
size_t char_offset(std::string_view text, size_t index);

// Where the character that ends at `end` (> 0) begins.
size_t previous_char(std::string_view text, size_t end);

// Python's str.strip: `chars` is a sorted set of characters; nullptr means white space.
enum class Strip { kLeft, kRight, kBoth };
TextSpan strip_span(std::string_view text, Strip side, const std::u32string* chars);

}  // namespace octavo::tokenizer::jinja
