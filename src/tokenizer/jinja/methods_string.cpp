// Methods of strings, as Python's str has them.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/strings.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer::jinja {
namespace {

using Args = const CallArgs&;

// No list can hold more, so there is no point in splitting further.
constexpr size_t kMaxParts = Extent::kMaxWeight;

Value substring(Runtime& rt, const Str& s, size_t begin, size_t end) {
  return Value::of(rt.heap().substr(s, begin, end));
}

template <CaseMapping mapping>
Result<Value> method_case(Runtime& rt, const Value& self, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return map_case(rt, self.str(), mapping);
}

template <Strip side>
Result<Value> method_strip(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {""}, 0));
  return strip(rt, self.str(), side, bound[0]);
}

struct SplitArgs {
  const Str* separator = nullptr;  // null: runs of white space
  int64_t max_splits = -1;
};
Result<SplitArgs> split_arguments(Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"sep", "maxsplit"}, 0));
  SplitArgs out;
  if (!bound[1].missing()) out.max_splits = OCTAVO_TRY(to_index(bound[1], "maxsplit"));
  if (bound[0].missing() || bound[0].is_none()) return out;
  out.separator = OCTAVO_TRY(to_string_argument(bound[0], "a separator"));
  if (out.separator->text.empty()) return invalid_argument("a separator is empty");
  return out;
}

std::vector<TextSpan> split_space(std::string_view text, int64_t max_splits) {
  std::vector<TextSpan> parts;
  size_t begin = strip_span(text, Strip::kLeft, nullptr).begin;
  while (begin < text.size() && parts.size() <= kMaxParts) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.push_back({begin, text.size()});
      break;
    }
    size_t end = begin;
    while (end < text.size()) {
      const Utf8Char c = utf8_decode(text, end);
      if (unicode_is_space(c.code_point)) break;
      end += c.size_bytes;
    }
    parts.push_back({begin, end});
    begin = end + strip_span(text.substr(end), Strip::kLeft, nullptr).begin;
  }
  return parts;
}

// From the right, in the order of the text.
std::vector<TextSpan> rsplit_space(std::string_view text, int64_t max_splits) {
  std::vector<TextSpan> all = split_space(text, -1);
  if (max_splits < 0 || static_cast<int64_t>(all.size()) <= max_splits) return all;
  const size_t merged = all.size() - static_cast<size_t>(max_splits);
  all[merged - 1].begin = 0;
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(merged - 1));
  return all;
}

std::vector<TextSpan> split_by(std::string_view text, std::string_view separator,
                               int64_t max_splits) {
  std::vector<TextSpan> parts;
  size_t begin = 0;
  while (parts.size() <= kMaxParts &&
         (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits)) {
    const size_t found = find_text(text, separator, begin);
    if (found == std::string_view::npos) break;
    parts.push_back({begin, found});
    begin = found + separator.size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<TextSpan> rsplit_by(std::string_view text, std::string_view separator,
                                int64_t max_splits) {
  std::vector<TextSpan> parts;
  size_t end = text.size();
  while (end >= separator.size() && parts.size() <= kMaxParts &&
         (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits)) {
    const size_t found = text.rfind(separator, end - separator.size());
    if (found == std::string_view::npos) break;
    parts.push_back({found + separator.size(), end});
    end = found;
  }
  parts.push_back({0, end});
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// A search from the right may compare all of `wanted` at each place.
Status charge_backwards(Runtime& rt, std::string_view text, std::string_view wanted) {
  OCTAVO_TRY(rt.charge_text(text.size()));
  const size_t compared = text.size() / kBytesPerStep * (wanted.size() / kCharsPerStep);
  return rt.charge(static_cast<int64_t>(compared));
}

Result<Value> list_of(Runtime& rt, const Str& s, const std::vector<TextSpan>& parts) {
  OCTAVO_TRY(rt.charge(static_cast<int64_t>(parts.size())));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const TextSpan& part : parts) items.push_back(substring(rt, s, part.begin, part.end));
  return rt.heap().list(items);
}

Result<Value> method_split(Runtime& rt, const Value& self, Args args) {
  const SplitArgs split = OCTAVO_TRY(split_arguments(args));
  OCTAVO_TRY(split.separator == nullptr ? rt.charge_chars(self.text().size())
                                        : rt.charge_text(self.text().size()));
  const std::string_view text = self.text();
  return list_of(rt, self.str(),
                 split.separator == nullptr
                     ? split_space(text, split.max_splits)
                     : split_by(text, split.separator->text, split.max_splits));
}

Result<Value> method_rsplit(Runtime& rt, const Value& self, Args args) {
  const SplitArgs split = OCTAVO_TRY(split_arguments(args));
  OCTAVO_TRY(split.separator == nullptr ? rt.charge_chars(self.text().size())
                                        : charge_backwards(rt, self.text(), split.separator->text));
  const std::string_view text = self.text();
  return list_of(rt, self.str(),
                 split.separator == nullptr
                     ? rsplit_space(text, split.max_splits)
                     : rsplit_by(text, split.separator->text, split.max_splits));
}

Result<Value> method_splitlines(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {"keepends"}, 0));
  OCTAVO_TRY(rt.charge_chars(self.text().size()));
  return list_of(rt, self.str(), split_lines(self.text(), truthy(bound[0])));
}

template <bool from_right>
Result<Value> method_partition(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {""}, 1));
  const Str* separator = OCTAVO_TRY(to_string_argument(bound[0], "a separator"));
  if (separator->text.empty()) return invalid_argument("a separator is empty");
  OCTAVO_TRY(charge_backwards(rt, self.text(), separator->text));
  const Str& s = self.str();
  const size_t size = s.text.size();
  const size_t found =
      from_right ? s.text.rfind(separator->text) : find_text(s.text, separator->text);
  const bool exists = found != std::string_view::npos;
  const size_t begin = exists ? found : from_right ? 0 : size;
  const size_t end = exists ? found + separator->text.size() : begin;
  const Value parts[] = {substring(rt, s, 0, begin), substring(rt, s, begin, end),
                         substring(rt, s, end, size)};
  return rt.heap().tuple(parts);
}

Result<Value> method_replace(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"", "", ""}, 2));
  const Str* from = OCTAVO_TRY(to_string_argument(bound[0], "what is replaced"));
  const Str* to = OCTAVO_TRY(to_string_argument(bound[1], "a replacement"));
  if (self.str().markup) to = OCTAVO_TRY(escape_markup(rt, bound[1]));
  const int64_t count = bound[2].missing() ? -1 : OCTAVO_TRY(to_index(bound[2], "the count"));
  return with_markup(rt, OCTAVO_TRY(replace(rt, self.str(), *from, *to, count)), self.str().markup);
}

// The part of a string that optional start and end arguments leave, in characters.
Result<TextSpan> clip(Runtime& rt, const Str& s, const Value& start, const Value& end) {
  if (start.missing() && end.missing()) return TextSpan{0, s.text.size()};
  const auto given = [](const Value& v) { return !v.missing() && !v.is_none(); };
  const int64_t length = OCTAVO_TRY(rt.length(Value::of(&s)));
  int64_t from = given(start) ? OCTAVO_TRY(to_index(start, "the start")) : 0;
  int64_t to = given(end) ? OCTAVO_TRY(to_index(end, "the end")) : length;
  if (from < 0) from = std::max<int64_t>(0, from + length);
  if (to < 0) to = std::max<int64_t>(0, to + length);
  if (from > length || from > to) return TextSpan{1, 0};  // not even "" is found here
  to = std::min(to, length);
  return TextSpan{char_offset(s.text, static_cast<size_t>(from)),
                  char_offset(s.text, static_cast<size_t>(to))};
}

template <bool at_end>
Result<Value> method_affix(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"", "", ""}, 1));
  const TextSpan span = OCTAVO_TRY(clip(rt, self.str(), bound[1], bound[2]));
  const bool several = bound[0].is(Kind::kSequence) && bound[0].sequence().is_tuple();
  const std::span<const Value> affixes =
      several ? bound[0].sequence().items : std::span<const Value>(bound.data(), 1);
  for (const Value& affix : affixes) {
    const std::string_view text = OCTAVO_TRY(to_string_argument(affix, "what is looked for"))->text;
    OCTAVO_TRY(rt.charge(1));
    if (span.begin > span.end) continue;
    const std::string_view part = self.text().substr(span.begin, span.end - span.begin);
    if (at_end ? part.ends_with(text) : part.starts_with(text)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

// find and index, from either side: -1 or an error where there is nothing.
template <bool from_right, bool must_exist>
Result<Value> method_find(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"", "", ""}, 1));
  const Str* wanted = OCTAVO_TRY(to_string_argument(bound[0], "what is looked for"));
  OCTAVO_TRY(from_right ? charge_backwards(rt, self.text(), wanted->text)
                        : rt.charge_text(self.text().size()));
  const TextSpan span = OCTAVO_TRY(clip(rt, self.str(), bound[1], bound[2]));
  size_t found = std::string_view::npos;
  if (span.begin <= span.end) {
    const std::string_view part = self.text().substr(0, span.end);
    found = from_right ? part.rfind(wanted->text) : find_text(part, wanted->text, span.begin);
    if (from_right && found < span.begin) found = std::string_view::npos;
  }
  if (found == std::string_view::npos) {
    if (must_exist) return invalid_argument("the substring is not found");
    return Value::integer(-1);
  }
  return Value::integer(static_cast<int64_t>(char_count(self.text().substr(0, found))));
}

Result<Value> method_count(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"", "", ""}, 1));
  const Str* wanted = OCTAVO_TRY(to_string_argument(bound[0], "what is counted"));
  OCTAVO_TRY(rt.charge_text(self.text().size()));
  const TextSpan span = OCTAVO_TRY(clip(rt, self.str(), bound[1], bound[2]));
  if (span.begin > span.end) return Value::integer(0);
  const std::string_view part = self.text().substr(span.begin, span.end - span.begin);
  if (wanted->text.empty()) return Value::integer(static_cast<int64_t>(char_count(part)) + 1);
  int64_t count = 0;
  for (size_t at = find_text(part, wanted->text); at != std::string_view::npos;
       at = find_text(part, wanted->text, at + wanted->text.size())) {
    ++count;
  }
  return Value::integer(count);
}

template <bool suffix>
Result<Value> method_remove_affix(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {""}, 1));
  const std::string_view affix = OCTAVO_TRY(to_string_argument(bound[0], "what is removed"))->text;
  const std::string_view text = self.text();
  const bool has = suffix ? text.ends_with(affix) : text.starts_with(affix);
  if (!has) return self;
  return suffix ? substring(rt, self.str(), 0, text.size() - affix.size())
                : substring(rt, self.str(), affix.size(), text.size());
}

Result<Value> method_join(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {""}, 1));
  if (bound[0].is_undefined()) return Value::of(rt.heap().borrow({}));
  std::vector<Value> items;
  for (const Value& item : OCTAVO_TRY(rt.iterate(bound[0]))) {
    const bool markup = self.str().markup;
    if (!markup) OCTAVO_TRY(to_string_argument(item, "an item to join"));
    items.push_back(markup ? Value::of(OCTAVO_TRY(escape_markup(rt, item))) : item);
  }
  return with_markup(rt, OCTAVO_TRY(join(rt, self.str(), items)), self.str().markup);
}

enum class Justify { kLeft, kRight, kCenter };
template <Justify side>
Result<Value> method_justify(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"", ""}, 1));
  const int64_t width = OCTAVO_TRY(to_index(bound[0], "the width"));
  const std::string_view fill =
      bound[1].missing() ? " " : OCTAVO_TRY(to_string_argument(bound[1], "the fill"))->text;
  if (char_count(fill) != 1) return invalid_argument("the fill must be one character");
  const int64_t length = OCTAVO_TRY(rt.length(self));
  if (width <= length) return self;
  const int64_t margin = width - length;
  OCTAVO_TRY(rt.check_text(static_cast<size_t>(margin)));
  OCTAVO_TRY(rt.charge(margin));
  const int64_t left = side == Justify::kLeft    ? 0
                       : side == Justify::kRight ? margin
                                                 : margin / 2 + (margin & width & 1);
  const bool tainted = !bound[1].missing() && !bound[1].str().taint.empty();
  TextBuilder out;
  for (int64_t i = 0; i < left; ++i) out.append_marked(fill, tainted);
  out.append(self.str());
  for (int64_t i = left; i < margin; ++i) out.append_marked(fill, tainted);
  return with_markup(rt, OCTAVO_TRY(rt.make_text(out)), self.str().markup);
}

Result<Value> method_zfill(Runtime& rt, const Value& self, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {""}, 1));
  const int64_t width = OCTAVO_TRY(to_index(bound[0], "the width"));
  const int64_t length = OCTAVO_TRY(rt.length(self));
  if (width <= length) return self;
  const int64_t margin = width - length;
  OCTAVO_TRY(rt.check_text(static_cast<size_t>(margin)));
  const std::string_view text = self.text();
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  TextBuilder out;
  out.append(self.str(), 0, sign);
  out.append_repeated('0', static_cast<size_t>(margin));
  out.append(self.str(), sign, text.size());
  return rt.make_text(out);
}

// Whether all characters are of a class; `of_empty` is the answer where there are none.
template <bool (*in_class)(char32_t), bool of_empty = false>
Result<Value> method_is(Runtime& rt, const Value& self, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  const std::string_view text = self.text();
  OCTAVO_TRY(rt.charge_chars(text.size()));
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    if (!in_class(c.code_point)) return Value::boolean(false);
    i += c.size_bytes;
  }
  return Value::boolean(!text.empty() || of_empty);
}
bool is_alnum(char32_t c) {
  return unicode_is_alpha(c) || unicode_is_numeric(c);
}
bool is_ascii(char32_t c) {
  return c < 0x80;
}

template <bool upper>
Result<Value> method_is_case(Runtime& rt, const Value& self, Args args) {
  const TestFn test = find_test(upper ? "upper" : "lower");
  return Value::boolean(OCTAVO_TRY(test(rt, self, args)));
}

Result<Value> method_format(Runtime& rt, const Value& self, Args args) {
  return format_braces(rt, self.str(), args);
}

constexpr MethodEntry kMethods[] = {
    {"split", method_split},
    {"rsplit", method_rsplit},
    {"splitlines", method_splitlines},
    {"strip", method_strip<Strip::kBoth>},
    {"lstrip", method_strip<Strip::kLeft>},
    {"rstrip", method_strip<Strip::kRight>},
    {"startswith", method_affix<false>},
    {"endswith", method_affix<true>},
    {"replace", method_replace},
    {"upper", method_case<CaseMapping::kUpper>},
    {"lower", method_case<CaseMapping::kLower>},
    {"title", method_case<CaseMapping::kTitle>},
    {"capitalize", method_case<CaseMapping::kCapitalize>},
    {"swapcase", method_case<CaseMapping::kSwap>},
    {"join", method_join},
    {"format", method_format},
    {"find", method_find<false, false>},
    {"rfind", method_find<true, false>},
    {"index", method_find<false, true>},
    {"rindex", method_find<true, true>},
    {"count", method_count},
    {"partition", method_partition<false>},
    {"rpartition", method_partition<true>},
    {"removeprefix", method_remove_affix<false>},
    {"removesuffix", method_remove_affix<true>},
    {"ljust", method_justify<Justify::kLeft>},
    {"rjust", method_justify<Justify::kRight>},
    {"center", method_justify<Justify::kCenter>},
    {"zfill", method_zfill},
    {"isalpha", method_is<unicode_is_alpha>},
    {"isalnum", method_is<is_alnum>},
    {"isdecimal", method_is<unicode_is_decimal>},
    {"isdigit", method_is<unicode_is_decimal>},
    {"isnumeric", method_is<unicode_is_numeric>},
    {"isspace", method_is<unicode_is_space>},
    {"isascii", method_is<is_ascii, true>},
    {"isprintable", method_is<unicode_is_printable, true>},
    {"isupper", method_is_case<true>},
    {"islower", method_is_case<false>},
    {"casefold", nullptr},
    {"encode", nullptr},
    {"expandtabs", nullptr},
    {"format_map", nullptr},
    {"isidentifier", nullptr},
    {"istitle", nullptr},
    {"maketrans", nullptr},
    {"translate", nullptr},
};

}  // namespace

const MethodEntry* find_string_method(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [name](const MethodEntry& m) { return m.name == name; });
  return found == std::end(kMethods) ? nullptr : found;
}

}  // namespace octavo::tokenizer::jinja
