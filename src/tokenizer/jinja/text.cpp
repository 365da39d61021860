#include "tokenizer/jinja/text.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer::jinja {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

bool strips(char32_t c, const std::u32string* chars) {
  if (chars == nullptr) return unicode_is_space(c);
  return std::binary_search(chars->begin(), chars->end(), c);
}

}  // namespace

std::span<const TextSpan> spans_within(std::span<const TextSpan> spans, size_t begin, size_t end) {
  const auto first = std::partition_point(spans.begin(), spans.end(),
                                          [begin](const TextSpan& s) { return s.end <= begin; });
  const auto last =
      std::partition_point(first, spans.end(), [end](const TextSpan& s) { return s.begin < end; });
  return {first, last};
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!taint_.empty() && taint_.back().end == begin) {
    taint_.back().end = end;
  } else {
    taint_.push_back({begin, end});
  }
}

void TextBuilder::append(const Str& s, size_t begin, size_t end) {
  const size_t base = text_.size();
  text_ += s.text.substr(begin, end - begin);
  for (const TextSpan& span : spans_within(s.taint, begin, end)) {
    mark(base + std::max(span.begin, begin) - begin, base + std::min(span.end, end) - begin);
  }
}

void TextBuilder::append_marked(std::string_view text, bool tainted) {
  const size_t base = text_.size();
  text_ += text;
  if (tainted) mark(base, text_.size());
}

size_t find_text(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size() || wanted.size() > text.size() - from) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t char_count(std::string_view text) {
  if (is_ascii(text)) return text.size();
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) i += utf8_decode(text, i).size_bytes;
  return count;
}

size_t char_offset(std::string_view text, size_t index) {
  size_t offset = 0;
  for (size_t i = 0; i < index && offset < text.size(); ++i) {
    offset += (text[offset] & 0x80) == 0 ? 1 : utf8_decode(text, offset).size_bytes;
  }
  return offset;
}

size_t previous_char(std::string_view text, size_t end) {
  const size_t longest = std::min<size_t>(4, end);
  for (size_t back = 1; back <= longest; ++back) {
    const Utf8Char c = utf8_decode(text, end - back);
    if (c.valid && c.size_bytes == back) return end - back;
  }
  return end - 1;
}

TextSpan strip_span(std::string_view text, Strip side, const std::u32string* chars) {
  size_t begin = 0;
  size_t end = text.size();
  while (side != Strip::kRight && begin < end) {
    const Utf8Char c = utf8_decode(text, begin);
    if (!strips(c.code_point, chars)) break;
    begin += c.size_bytes;
  }
  while (side != Strip::kLeft && end > begin) {
    const size_t start = std::max(begin, previous_char(text, end));
    const Utf8Char c = utf8_decode(text, start);
    if (!strips(c.code_point, chars)) break;
    end = start;
  }
  return {begin, end};
}

}  // namespace octavo::tokenizer::jinja
