// Filters on strings. Like Jinja2's, they take any value and work on its text.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/strings.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer::jinja {
namespace {

using Args = const CallArgs&;

Result<Value> filter_string(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return Value::of(OCTAVO_TRY(rt.to_text(v)));
}

template <CaseMapping mapping>
Result<Value> filter_case(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return map_case(rt, *OCTAVO_TRY(rt.to_text(v)), mapping);
}

// Unlike str.title, words start only after white space, hyphens and opening brackets.
Result<Value> filter_title(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  const Str* s = OCTAVO_TRY(rt.to_text(v));
  OCTAVO_TRY(rt.charge_chars(s->text.size()));
  TextBuilder out;
  size_t word = 0;
  const auto flush = [&](size_t end) -> Status {
    if (word == end) return {};
    const size_t rest = word + utf8_decode(s->text, word).size_bytes;
    const Value first =
        OCTAVO_TRY(map_case(rt, *rt.heap().substr(*s, word, rest), CaseMapping::kUpper));
    const Value others =
        OCTAVO_TRY(map_case(rt, *rt.heap().substr(*s, rest, end), CaseMapping::kLower));
    out.append(first.str());
    out.append(others.str());
    return {};
  };
  for (size_t i = 0; i < s->text.size();) {
    const Utf8Char c = utf8_decode(s->text, i);
    const bool separates = unicode_is_space(c.code_point) ||
                           std::u32string_view(U"-({[<").find(c.code_point) != std::u32string::npos;
    if (separates) {
      OCTAVO_TRY(flush(i));
      out.append(*s, i, i + c.size_bytes);
      word = i + c.size_bytes;
    }
    i += c.size_bytes;
  }
  OCTAVO_TRY(flush(s->text.size()));
  return rt.make_text(out);
}

Result<Value> filter_trim(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {"chars"}, 0));
  return strip(rt, *OCTAVO_TRY(rt.to_text(v)), Strip::kBoth, bound[0]);
}

Result<Value> filter_replace(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"old", "new", "count"}, 2));
  const bool all = bound[2].missing() || bound[2].is_none();
  const int64_t count = all ? -1 : OCTAVO_TRY(to_index(bound[2], "the count"));
  const Str* s = OCTAVO_TRY(rt.to_text(v));
  const Str* from = OCTAVO_TRY(rt.to_text(bound[0]));
  return replace(rt, *s, *from, *OCTAVO_TRY(rt.to_text(bound[1])), count);
}

Result<Value> filter_escape(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return Value::of(OCTAVO_TRY(escape_markup(rt, v)));
}

Result<Value> filter_force_escape(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  const Value text = with_markup(rt, Value::of(OCTAVO_TRY(rt.to_text(v))), false);
  return Value::of(OCTAVO_TRY(escape_markup(rt, text)));
}

Result<Value> filter_safe(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return with_markup(rt, Value::of(OCTAVO_TRY(rt.to_text(v))), true);
}

Result<Value> filter_center(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {"width"}, 0));
  const int64_t width = bound[0].missing() ? 80 : OCTAVO_TRY(to_index(bound[0], "the width"));
  const Str* s = OCTAVO_TRY(rt.to_text(v));
  const int64_t length = OCTAVO_TRY(rt.length(Value::of(s)));
  if (width <= length) return Value::of(s);
  const int64_t margin = width - length;
  OCTAVO_TRY(rt.check_text(static_cast<size_t>(width)));
  // Python puts the odd space on the left where the width is odd.
  const int64_t left = margin / 2 + (margin & width & 1);
  TextBuilder out;
  out.append_repeated(' ', static_cast<size_t>(left));
  out.append(*s);
  out.append_repeated(' ', static_cast<size_t>(margin - left));
  return rt.make_text(out);
}

Result<const Str*> indentation(Runtime& rt, const Value& width) {
  if (width.is_string()) return &width.str();
  const int64_t spaces = width.missing() ? 4 : OCTAVO_TRY(to_index(width, "the width"));
  if (spaces <= 0) return rt.heap().borrow({});
  OCTAVO_TRY(rt.check_text(static_cast<size_t>(spaces)));
  return rt.heap().str(std::string(static_cast<size_t>(spaces), ' '));
}

Result<Value> filter_indent(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"width", "first", "blank"}, 0));
  const Str* indent = OCTAVO_TRY(indentation(rt, bound[0]));
  const Str* s = OCTAVO_TRY(to_string_argument(v, "what is indented"));
  OCTAVO_TRY(rt.charge_chars(s->text.size()));
  const bool blank = truthy(bound[2]);
  TextBuilder out;
  if (truthy(bound[1])) out.append(*indent);
  // A line end at the very end starts one more, empty line.
  const std::string with_end = std::string(s->text) + "\n";
  bool first = true;
  for (const TextSpan& line : split_lines(with_end, false)) {
    if (!first) out.append('\n');
    if (!first && (blank || line.begin != line.end)) out.append(*indent);
    first = false;
    out.append(*s, line.begin, line.end);
    OCTAVO_TRY(rt.check_text(out.size()));
  }
  return rt.make_text(out);
}

Result<Value> filter_truncate(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<4>(args, {"length", "killwords", "end", "leeway"}, 0));
  const int64_t length = bound[0].missing() ? 255 : OCTAVO_TRY(to_index(bound[0], "the length"));
  const Value end = bound[2].missing() ? Value::of(rt.heap().borrow("...")) : bound[2];
  const bool default_leeway = bound[3].missing() || bound[3].is_none();
  const int64_t leeway = default_leeway ? 5 : OCTAVO_TRY(to_index(bound[3], "the leeway"));
  const int64_t end_length = OCTAVO_TRY(rt.length(end));
  if (length < end_length) return invalid_argument("the length is shorter than the end");
  if (leeway < 0) return invalid_argument("the leeway is negative");
  const int64_t size = OCTAVO_TRY(rt.length(v));
  if (size <= length || size - length <= leeway) return v;
  const Value cut =
      OCTAVO_TRY(rt.slice(v, Value::none(), Value::integer(length - end_length), Value::none()));
  if (truthy(bound[1]) || !cut.is_string()) return rt.add(cut, end);
  const size_t space = cut.text().rfind(' ');
  const size_t kept = space == std::string_view::npos ? cut.text().size() : space;
  return rt.add(Value::of(rt.heap().substr(cut.str(), 0, kept)), end);
}

Result<Value> filter_wordcount(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  const std::string_view text = OCTAVO_TRY(rt.to_text(v))->text;
  OCTAVO_TRY(rt.charge_chars(text.size()));
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    const bool word = unicode_is_word(c.code_point);
    if (word && !inside) ++words;
    inside = word;
    i += c.size_bytes;
  }
  return Value::integer(words);
}

Result<Value> filter_format(Runtime& rt, const Value& v, Args args) {
  if (!args.positional.empty() && !args.keyword.empty()) {
    return invalid_argument("either positional or keyword arguments can be formatted");
  }
  const Str* pattern = OCTAVO_TRY(rt.to_text(v));
  if (args.keyword.empty()) {
    return format_percent(rt, *pattern, OCTAVO_TRY(rt.heap().tuple(args.positional)));
  }
  Dict* dict = rt.heap().dict();
  for (const auto& [name, value] : args.keyword) dict->set(Value::of(name), value);
  return format_percent(rt, *pattern, OCTAVO_TRY(rt.make_dict(dict)));
}

constexpr Named<FilterFn> kStringFilters[] = {
    {"string", filter_string},
    {"upper", filter_case<CaseMapping::kUpper>},
    {"lower", filter_case<CaseMapping::kLower>},
    {"capitalize", filter_case<CaseMapping::kCapitalize>},
    {"title", filter_title},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_force_escape},
    {"safe", filter_safe},
    {"center", filter_center},
    {"indent", filter_indent},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"format", filter_format},
};

}  // namespace

std::span<const Named<FilterFn>> string_filters() {
  return kStringFilters;
}

}  // namespace octavo::tokenizer::jinja
