// `"{}".format(...)`, as Python formats. A field within a field's specification is refused.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/format_spec.h"
#include "tokenizer/jinja/repr.h"
#include "tokenizer/jinja/runtime.h"

namespace octavo::tokenizer::jinja {
namespace {

std::string grouped(std::string digits) {
  const size_t point = std::min(digits.find_first_of(".e"), digits.size());
  for (size_t i = point; i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& rt, const Str& pattern, const CallArgs& args)
      : rt_(rt), pattern_(pattern), args_(args) {}

  Result<Value> run();

 private:
  Status field(std::string_view body);
  Result<Value> lookup(std::string_view path);
  Result<Value> first_value(std::string_view name);
  Result<FormatSpec> parse_spec(std::string_view text);
  Status append_value(const Value& v, const FormatSpec& spec);

  Runtime& rt_;
  const Str& pattern_;
  const CallArgs& args_;
  size_t next_ = 0;
  enum class Numbering { kNone, kAutomatic, kManual } numbering_ = Numbering::kNone;
  TextBuilder out_;
};

Result<Value> BraceFormatter::run() {
  const std::string_view text = pattern_.text;
  for (size_t pos = 0; pos < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", pos), text.size());
    out_.append(pattern_, pos, brace);
    pos = brace;
    if (pos >= text.size()) break;
    OCTAVO_TRY(rt_.charge(1));
    OCTAVO_TRY(rt_.check_text(out_.size()));
    if (pos + 1 < text.size() && text[pos + 1] == text[pos]) {
      out_.append(text[pos]);
      pos += 2;
      continue;
    }
    const size_t close = text.find('}', pos);
    if (text[pos] == '}' || close == std::string_view::npos) {
      return invalid_argument("the format has a single brace");
    }
    const std::string_view body = text.substr(pos + 1, close - pos - 1);
    if (body.find('{') != std::string_view::npos) {
      return invalid_argument("fields within a format's fields are not supported");
    }
    OCTAVO_TRY(field(body));
    pos = close + 1;
  }
  return formatted_text(rt_, pattern_, out_);
}

Status BraceFormatter::field(std::string_view body) {
  const size_t colon = std::min(body.find(':'), body.size());
  std::string_view path = body.substr(0, colon);
  char conversion = '\0';
  if (const size_t bang = path.find('!'); bang != std::string_view::npos) {
    if (bang + 2 != path.size()) return invalid_argument("the format has a bad conversion");
    conversion = path[bang + 1];
    path = path.substr(0, bang);
    if (conversion != 's' && conversion != 'r' && conversion != 'a') {
      return invalid_argument("the format has an unknown conversion");
    }
  }
  Value v = OCTAVO_TRY(lookup(path));
  if (conversion == 's') v = Value::of(OCTAVO_TRY(rt_.to_text(v)));
  if (conversion == 'r' || conversion == 'a') {
    OCTAVO_TRY(rt_.charge_walk(v));
    TextBuilder shown;
    append_repr(shown, v);
    v = OCTAVO_TRY(rt_.make_text(shown));
  }
  const FormatSpec spec =
      OCTAVO_TRY(parse_spec(colon < body.size() ? body.substr(colon + 1) : std::string_view()));
  OCTAVO_TRY(
      rt_.charge_chars(static_cast<size_t>(spec.width + std::max<int64_t>(0, spec.precision))));
  return append_value(v, spec);
}

Result<Value> BraceFormatter::first_value(std::string_view name) {
  const bool is_number =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) {
    for (const auto& [key, value] : args_.keyword) {
      if (key->text == name) return value;
    }
    return invalid_argument("a name of the format is missing");
  }
  const Numbering numbering = name.empty() ? Numbering::kAutomatic : Numbering::kManual;
  if (numbering_ != Numbering::kNone && numbering_ != numbering) {
    return invalid_argument("the format mixes numbered and unnumbered fields");
  }
  numbering_ = numbering;
  size_t index = args_.positional.size();
  if (name.empty()) {
    index = next_++;
  } else {
    std::from_chars(name.data(), name.data() + name.size(), index);
  }
  if (index >= args_.positional.size()) {
    return invalid_argument("there are not enough values for the format");
  }
  return args_.positional[index];
}

Result<Value> BraceFormatter::lookup(std::string_view path) {
  size_t pos = std::min(path.find_first_of(".["), path.size());
  if (pos == 0 && !path.empty()) return invalid_argument("the format has a bad field");
  Value v = OCTAVO_TRY(first_value(path.substr(0, pos)));
  while (pos < path.size()) {
    const bool is_item = path[pos] == '[';
    const size_t begin = pos + 1;
    const size_t end =
        is_item ? path.find(']', begin) : std::min(path.find_first_of(".[", begin), path.size());
    if (end == std::string_view::npos || end == begin) {
      return invalid_argument("the format has a bad field");
    }
    const std::string_view name = path.substr(begin, end - begin);
    int64_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = is_item && parsed.ptr == name.data() + name.size() && name[0] != '-';
    const Str* key = rt_.heap().str(name);
    v = OCTAVO_TRY(is_item ? rt_.get_item(v, is_index ? Value::integer(index) : Value::of(key))
                           : rt_.get_attribute(v, *key));
    pos = is_item ? end + 1 : end;
    if (pos < path.size() && path[pos] != '.' && path[pos] != '[') {
      return invalid_argument("the format has a bad field");
    }
  }
  return v;
}

Result<FormatSpec> BraceFormatter::parse_spec(std::string_view text) {
  constexpr std::string_view kAligns = "<>^=";
  FormatSpec spec;
  size_t pos = 0;
  if (!text.empty()) {
    const size_t first = utf8_decode(text, 0).size_bytes;
    if (first < text.size() && kAligns.find(text[first]) != std::string_view::npos) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      pos = first + 1;
    } else if (kAligns.find(text[0]) != std::string_view::npos) {
      spec.align = text[0];
      pos = 1;
    }
  }
  const auto take = [&](char c) {
    return pos < text.size() && text[pos] == c ? (++pos, true) : false;
  };
  for (const char sign : {'+', '-', ' '}) {
    if (take(sign)) {
      spec.sign = sign;
      break;
    }
  }
  spec.alternate = take('#');
  if (take('0') && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = OCTAVO_TRY(parse_count(text, pos));
  spec.group_by_comma = take(',');
  if (take('.')) {
    const size_t digits = pos;
    spec.precision = OCTAVO_TRY(parse_count(text, pos));
    if (pos == digits) return invalid_argument("the format has a precision without digits");
  }
  if (pos < text.size()) spec.kind = text[pos++];
  if (pos < text.size()) return invalid_argument("the format has a bad specification");
  return spec;
}

Status BraceFormatter::append_value(const Value& v, const FormatSpec& spec) {
  const bool plain = spec.width == 0 && spec.precision < 0 && spec.kind == '\0' &&
                     spec.align == '\0' && spec.sign == '-' && !spec.group_by_comma;
  if (v.is_string() || plain || v.is_undefined()) {
    if (spec.kind != '\0' && spec.kind != 's') {
      return invalid_argument(format("the format's '{}' needs a number", spec.kind));
    }
    if (spec.align == '=' && v.is_string()) {
      return invalid_argument("the format's '=' needs a number");
    }
    if (spec.group_by_comma || (v.is_undefined() && !plain)) {
      return invalid_argument(format("'{}' does not take this format", type_name(v)));
    }
    const Str* text = OCTAVO_TRY(rt_.to_text(v));
    if (spec.precision >= 0) {
      const size_t end = char_offset(text->text, static_cast<size_t>(spec.precision));
      text = rt_.heap().substr(*text, 0, end);
    }
    append_padded(out_, *text, spec, '<');
    return {};
  }
  if (!v.is_number()) {
    return invalid_argument(format("'{}' does not take this format", type_name(v)));
  }
  bool negative = false;
  std::string digits;
  const bool wants_float = is_kind(spec.kind, "eEfFgG%");
  if (spec.kind == '\0' && v.is(Kind::kFloat) && spec.precision < 0) {
    negative = std::signbit(v.real());
    digits = float_repr(std::abs(v.real()));
  } else if (v.is(Kind::kFloat) || (wants_float && spec.kind != '\0')) {
    if (spec.kind != '\0' && !wants_float) {
      return invalid_argument(format("the format's '{}' needs an integer", spec.kind));
    }
    FormatSpec number = spec;
    double d = to_double(v);
    if (spec.kind == '%') {
      d *= 100;
      number.kind = 'f';
    }
    negative = std::signbit(d) && !std::isnan(d);
    digits = float_digits(d, number) + (spec.kind == '%' ? "%" : "");
  } else {
    const bool known = is_kind(spec.kind, "dnxXob");
    if ((spec.kind != '\0' && !known) || spec.precision >= 0) {
      return invalid_argument("an integer does not take this format");
    }
    if (v.is(Kind::kBool) && spec.kind == '\0') {
      digits = v.boolean() ? "1" : "0";
    } else {
      digits = integer_digits(v, spec, negative);
    }
  }
  if (spec.group_by_comma) digits = grouped(digits);
  FormatSpec padded = spec;
  padded.alternate = spec.alternate && is_kind(spec.kind, "xXob") && spec.kind != '\0';
  append_padded(out_, {with_sign(negative, spec.sign, digits), {}}, padded, '>');
  return {};
}

}  // namespace

Result<Value> format_braces(Runtime& rt, const Str& pattern, const CallArgs& args) {
  return BraceFormatter(rt, pattern, args).run();
}

}  // namespace octavo::tokenizer::jinja
