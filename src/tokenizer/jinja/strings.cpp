#include "tokenizer/jinja/strings.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer::jinja {
namespace {

// Whether a capital sigma at [begin, end) ends a word: a letter comes before, none after.
bool ends_word(std::string_view text, size_t begin, size_t end) {
  if (end < text.size() && unicode_is_alpha(utf8_decode(text, end).code_point)) return false;
  return begin > 0 && unicode_is_alpha(utf8_decode(text, previous_char(text, begin)).code_point);
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

Value with_markup(Runtime& rt, const Value& text, bool markup) {
  if (text.str().markup == markup) return text;
  return Value::of(rt.heap().make<Str>(text.text(), text.str().taint, markup));
}

Result<Value> map_case(Runtime& rt, const Str& s, CaseMapping mapping) {
  OCTAVO_TRY(rt.charge_chars(s.text.size()));
  TextBuilder out;
  TaintCursor taint(s);
  bool word_start = true;
  for (size_t i = 0; i < s.text.size();) {
    const Utf8Char c = utf8_decode(s.text, i);
    const size_t end = i + c.size_bytes;
    const bool cased = unicode_is_cased(c.code_point);
    const bool starts = mapping == CaseMapping::kCapitalize ? i == 0 : word_start;
    const bool upper = mapping == CaseMapping::kUpper ||
                       (mapping == CaseMapping::kSwap && unicode_is_lower(c.code_point));
    const bool title =
        starts && (mapping == CaseMapping::kTitle || mapping == CaseMapping::kCapitalize);
    const bool same = mapping == CaseMapping::kSwap && !unicode_is_upper(c.code_point) && !upper;
    std::string mapped;
    if (!c.valid || same) {
      mapped = s.text.substr(i, c.size_bytes);
    } else if (title) {
      append_title(mapped, c.code_point);
    } else if (upper) {
      append_upper(mapped, c.code_point);
    } else {
      append_lower(mapped, c.code_point, ends_word(s.text, i, end));
    }
    out.append_marked(mapped, taint.at(i));
    word_start = !cased;
    i = end;
  }
  return with_markup(rt, OCTAVO_TRY(rt.make_text(out)), s.markup);
}

Result<Value> strip(Runtime& rt, const Str& s, Strip side, const Value& chars) {
  const bool is_space = chars.missing() || chars.is_none();
  std::u32string set;
  if (!is_space) {
    const std::string_view text = OCTAVO_TRY(to_string_argument(chars, "what to strip"))->text;
    OCTAVO_TRY(rt.charge_chars(text.size()));
    for (size_t i = 0; i < text.size();) {
      const Utf8Char c = utf8_decode(text, i);
      set += c.code_point;
      i += c.size_bytes;
    }
    std::sort(set.begin(), set.end());
  }
  const TextSpan span = strip_span(s.text, side, is_space ? nullptr : &set);
  OCTAVO_TRY(rt.charge_chars(s.text.size() - (span.end - span.begin)));
  return Value::of(rt.heap().substr(s, span.begin, span.end));
}

Result<Value> replace(Runtime& rt, const Str& s, const Str& from, const Str& to, int64_t count) {
  OCTAVO_TRY(rt.charge_text(s.text.size()));
  int64_t left = count < 0 ? INT64_MAX : count;
  TextBuilder out;
  size_t copied = 0;
  size_t search = 0;
  while (left > 0) {
    const size_t found = find_text(s.text, from.text, search);
    if (found == std::string_view::npos) break;
    out.append(s, copied, found);
    out.append(to);
    OCTAVO_TRY(rt.check_text(out.size()));
    OCTAVO_TRY(rt.charge(1));
    --left;
    copied = found + from.text.size();
    search = copied;
    if (from.text.empty()) {  // between all characters, and at both ends
      if (found >= s.text.size()) break;
      search = found + utf8_decode(s.text, found).size_bytes;
    }
  }
  if (copied == 0 && out.size() == 0) return Value::of(&s);
  out.append(s, copied, s.text.size());
  return rt.make_text(out);
}

Result<Value> join(Runtime& rt, const Str& separator, std::span<const Value> items) {
  TextBuilder out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(*OCTAVO_TRY(rt.to_text(items[i])));
    OCTAVO_TRY(rt.check_text(out.size()));
  }
  return rt.make_text(out);
}

std::vector<TextSpan> split_lines(std::string_view text, bool keep_ends) {
  std::vector<TextSpan> lines;
  size_t start = 0;
  // More lines than a list can hold would be refused anyway.
  for (size_t i = 0; i < text.size() && lines.size() <= Extent::kMaxWeight;) {
    const Utf8Char c = utf8_decode(text, i);
    size_t end = i + c.size_bytes;
    if (is_line_end(c.code_point)) {
      if (c.code_point == U'\r' && end < text.size() && text[end] == '\n') ++end;
      lines.push_back({start, keep_ends ? end : i});
      start = end;
    }
    i = end;
  }
  if (start < text.size()) lines.push_back({start, text.size()});
  return lines;
}

// MarkupSafe's escape: of what is Markup already nothing changes.
Result<const Str*> escape_markup(Runtime& rt, const Value& v) {
  const Str* s = OCTAVO_TRY(rt.to_text(v));
  if (s->markup) return s;
  OCTAVO_TRY(rt.charge_chars(s->text.size()));
  TextBuilder out;
  TaintCursor taint(*s);
  for (size_t i = 0; i < s->text.size(); ++i) {
    const char c = s->text[i];
    const std::string_view escaped = c == '&'    ? "&amp;"
                                     : c == '<'  ? "&lt;"
                                     : c == '>'  ? "&gt;"
                                     : c == '\'' ? "&#39;"
                                     : c == '"'  ? "&#34;"
                                                 : s->text.substr(i, 1);
    out.append_marked(escaped, taint.at(i));
  }
  return &with_markup(rt, OCTAVO_TRY(rt.make_text(out)), true).str();
}

}  // namespace octavo::tokenizer::jinja
