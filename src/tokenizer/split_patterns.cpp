#include "tokenizer/split_patterns.h"

#include "tokenizer/unicode.h"

namespace octavo::tokenizer {
namespace {

// The end of the run of characters satisfying `predicate` that starts at `pos` (it may be empty).
template <typename Predicate>
size_t run_end(std::string_view text, size_t pos, Predicate predicate) {
  while (pos < text.size()) {
    const TextChar c = char_at(text, pos);
    if (!predicate(c)) break;
    pos += c.size_bytes;
  }
  return pos;
}

size_t run_end_of(std::string_view text, size_t pos, CharClasses classes) {
  return run_end(text, pos, [=](const TextChar& c) { return c.is(classes); });
}

// [^\s\p{L}\p{N}]+
size_t symbols_end(std::string_view text, size_t pos) {
  return run_end(text, pos, [](const TextChar& c) { return !c.is(kSpace | kLetter | kNumber); });
}

template <typename Predicate>
TextSpan find_one(std::string_view text, size_t from, Predicate predicate) {
  while (from < text.size()) {
    const TextChar c = char_at(text, from);
    if (predicate(c)) return {from, from + c.size_bytes};
    from += c.size_bytes;
  }
  return {text.size(), text.size()};
}

template <typename Predicate>
TextSpan find_run(std::string_view text, size_t from, Predicate predicate) {
  const TextSpan first = find_one(text, from, predicate);
  return {first.begin, run_end(text, first.end, predicate)};
}

// \s? followed by a run of `classes`, which hold no space.
TextSpan find_spaced_run(std::string_view text, size_t from, CharClasses classes) {
  size_t space = from;  // where the space before the current character starts, or that character
  for (size_t pos = from; pos < text.size();) {
    const TextChar c = char_at(text, pos);
    if (c.is(classes)) return {space, run_end_of(text, pos, classes)};
    space = c.is(kSpace) ? pos : pos + c.size_bytes;
    pos += c.size_bytes;
  }
  return {text.size(), text.size()};
}

char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The length of 's, 't, 're, 've, 'm, 'll or 'd at `pos`, which holds an apostrophe; 0 for none.
size_t contraction_size(std::string_view text, size_t pos, bool ignore_case) {
  const auto letter = [&](size_t offset) {
    if (pos + offset >= text.size()) return '\0';
    const char c = text[pos + offset];
    return ignore_case ? ascii_lower(c) : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      // U+017F, the long s, is an s to a pattern that ignores case.
      return ignore_case && text.substr(pos + 1, 2) == "\u017F" ? 3 : 0;
  }
}

struct SpaceRun {
  size_t end = 0;          // past the run
  size_t last = 0;         // the start of its last character
  size_t newline_end = 0;  // past its last \r or \n; 0 where it has none
};

SpaceRun space_run(std::string_view text, size_t pos) {
  SpaceRun run{pos, pos, 0};
  while (run.end < text.size()) {
    const TextChar c = char_at(text, run.end);
    if (!c.is(kSpace)) break;
    run.last = run.end;
    run.end += c.size_bytes;
    if (c.is_newline()) run.newline_end = run.end;
  }
  return run;
}

// \s+(?!\S)|\s+ : a run of spaces leaves its last one to the word that follows.
size_t spaces_end(std::string_view text, size_t pos, const SpaceRun& run) {
  const bool whole = run.end == text.size() || run.last == pos;
  return whole ? run.end : run.last;
}

// The end of the match at `pos`: every character starts one.
size_t match_gpt2(std::string_view text, size_t pos) {
  TextChar c = char_at(text, pos);
  if (c.code_point == U'\'') {
    const size_t size = contraction_size(text, pos, false);
    if (size != 0) return pos + size;
  }
  size_t body = pos;
  if (c.code_point == U' ' && pos + 1 < text.size()) {
    body = pos + 1;
    c = char_at(text, body);
  }
  if (c.is(kLetter)) return run_end_of(text, body + c.size_bytes, kLetter);
  if (c.is(kNumber)) return run_end_of(text, body + c.size_bytes, kNumber);
  if (!c.is(kSpace)) return symbols_end(text, body + c.size_bytes);
  return spaces_end(text, pos, space_run(text, pos));
}

size_t numbers_end(std::string_view text, size_t pos, int most) {
  for (int count = 0; count < most && pos < text.size(); ++count) {
    const TextChar c = char_at(text, pos);
    if (!c.is(kNumber)) break;
    pos += c.size_bytes;
  }
  return pos;
}

size_t match_llama3(std::string_view text, size_t pos, int most_numbers) {
  const TextChar c = char_at(text, pos);
  if (c.code_point == U'\'') {
    const size_t size = contraction_size(text, pos, true);
    if (size != 0) return pos + size;
  }
  const size_t next = pos + c.size_bytes;
  if (c.is(kLetter)) return run_end_of(text, next, kLetter);
  if (c.is(kNumber)) return numbers_end(text, pos, most_numbers);
  const bool at_end = next == text.size();
  if (!c.is_newline() && !at_end && char_at(text, next).is(kLetter)) {
    return run_end_of(text, next, kLetter);
  }
  const bool spaced_symbols =
      c.code_point == U' ' && !at_end && !char_at(text, next).is(kSpace | kLetter | kNumber);
  if (!c.is(kSpace) || spaced_symbols) {
    return run_end(text, symbols_end(text, next), [](const TextChar& n) { return n.is_newline(); });
  }
  const SpaceRun run = space_run(text, pos);
  return run.newline_end != 0 ? run.newline_end : spaces_end(text, pos, run);
}

TextSpan none(std::string_view text) {
  return {text.size(), text.size()};
}

}  // namespace

TextSpan find_gpt2(std::string_view text, size_t from) {
  return from < text.size() ? TextSpan{from, match_gpt2(text, from)} : none(text);
}

TextSpan find_llama3(std::string_view text, size_t from) {
  return from < text.size() ? TextSpan{from, match_llama3(text, from, 3)} : none(text);
}

TextSpan find_qwen2(std::string_view text, size_t from) {
  return from < text.size() ? TextSpan{from, match_llama3(text, from, 1)} : none(text);
}

TextSpan find_number(std::string_view text, size_t from) {
  return find_one(text, from, [](const TextChar& c) { return c.is(kNumber); });
}

TextSpan find_numbers(std::string_view text, size_t from) {
  return find_run(text, from, [](const TextChar& c) { return c.is(kNumber); });
}

TextSpan find_three_digits(std::string_view text, size_t from) {
  int digits = 0;
  for (size_t pos = from; pos < text.size(); ++pos) {
    digits = text[pos] >= '0' && text[pos] <= '9' ? digits + 1 : 0;
    if (digits == 3) return {pos - 2, pos + 1};
  }
  return none(text);
}

TextSpan find_punctuation(std::string_view text, size_t from) {
  return find_run(text, from, [](const TextChar& c) {
    constexpr std::u32string_view kSymbols = U"$+<=>^~|";
    return c.is(kPunctuation) || kSymbols.find(c.code_point) != std::u32string_view::npos;
  });
}

TextSpan find_mark(std::string_view text, size_t from) {
  return find_one(text, from, [](const TextChar& c) {
    constexpr std::u32string_view kSymbols = U"$+<=>^`|~";
    return c.is(kPunctuation) || kSymbols.find(c.code_point) != std::u32string_view::npos;
  });
}

TextSpan find_space(std::string_view text, size_t from) {
  return find_one(text, from, [](const TextChar& c) { return c.is(kSpace); });
}

TextSpan find_newline(std::string_view text, size_t from) {
  return find_one(text, from, [](const TextChar& c) { return c.is_newline(); });
}

TextSpan find_spaced_letters(std::string_view text, size_t from) {
  return find_spaced_run(text, from, kLetter);
}

TextSpan find_spaced_punctuation(std::string_view text, size_t from) {
  return find_spaced_run(text, from, kPunctuation);
}

TextSpan find_cjk(std::string_view text, size_t from) {
  return find_run(text, from, [](const TextChar& c) {
    const char32_t p = c.code_point;
    return (p >= 0x0800 && p <= 0x9FA5) || (p >= 0xAC00 && p <= 0xD7FF);
  });
}

}  // namespace octavo::tokenizer
