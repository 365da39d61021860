// `"%s" % values`, as Python formats.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/format_spec.h"
#include "tokenizer/jinja/repr.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/strings.h"

namespace octavo::tokenizer::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, const Str& pattern, const Value& values)
      : rt_(rt), pattern_(pattern), values_(values) {
    is_tuple_ = values.is(Kind::kSequence) && values.sequence().is_tuple();
  }

  Result<Value> run();

 private:
  Result<Value> next_value();
  Status conversion(size_t& pos);
  Status append_number(const Value& v, const FormatSpec& spec);
  Status append_char(const Value& v, const FormatSpec& spec);

  Runtime& rt_;
  const Str& pattern_;
  const Value& values_;
  bool is_tuple_ = false;
  size_t used_ = 0;
  bool by_key_ = false;
  Value keyed_;
  TextBuilder out_;
};

Result<Value> PercentFormatter::next_value() {
  if (!keyed_.missing()) return keyed_;
  const size_t count = is_tuple_ ? values_.sequence().items.size() : 1;
  if (used_ >= count) return invalid_argument("there are not enough values for the format");
  return is_tuple_ ? values_.sequence().items[used_++] : (++used_, values_);
}

Result<Value> PercentFormatter::run() {
  const std::string_view text = pattern_.text;
  for (size_t pos = 0; pos < text.size();) {
    const size_t percent = std::min(text.find('%', pos), text.size());
    out_.append(pattern_, pos, percent);
    pos = percent;
    if (pos < text.size()) OCTAVO_TRY(conversion(pos));
    OCTAVO_TRY(rt_.charge(1));
    OCTAVO_TRY(rt_.check_text(out_.size()));
  }
  const size_t given = is_tuple_ ? values_.sequence().items.size() : 1;
  const bool may_be_unused = values_.is_dict() || (values_.is(Kind::kSequence) && !is_tuple_);
  if (!by_key_ && used_ < given && !(may_be_unused && used_ == 0)) {
    return invalid_argument("not all values are used by the format");
  }
  const Value formatted = OCTAVO_TRY(formatted_text(rt_, pattern_, out_));
  return with_markup(rt_, formatted, pattern_.markup);
}

// From the `%` at pos to behind the conversion.
Status PercentFormatter::conversion(size_t& pos) {
  const std::string_view text = pattern_.text;
  FormatSpec spec;
  bool zero = false;
  keyed_ = Value();
  ++pos;
  if (pos < text.size() && text[pos] == '(') {
    const size_t close = text.find(')', pos);
    if (close == std::string_view::npos || !values_.is_dict()) {
      return invalid_argument("a format with names needs a mapping");
    }
    const Value* found = values_.dict().find(text.substr(pos + 1, close - pos - 1));
    if (found == nullptr) return invalid_argument("a name of the format is missing");
    keyed_ = *found;
    by_key_ = true;
    pos = close + 1;
  }
  for (; pos < text.size() && std::string_view("#0- +").find(text[pos]) != std::string_view::npos;
       ++pos) {
    const char c = text[pos];
    if (c == '#') spec.alternate = true;
    if (c == '0') zero = true;
    if (c == '-') spec.align = '<';
    if (c == '+' || (c == ' ' && spec.sign != '+')) spec.sign = c;
  }
  spec.width = OCTAVO_TRY(parse_count(text, pos));
  if (pos < text.size() && text[pos] == '.') {
    ++pos;
    spec.precision = OCTAVO_TRY(parse_count(text, pos));
  }
  if (pos < text.size() && (text[pos] == 'l' || text[pos] == 'h' || text[pos] == 'L')) ++pos;
  if (pos >= text.size()) return invalid_argument("the format is incomplete");
  spec.kind = text[pos++];
  OCTAVO_TRY(
      rt_.charge_chars(static_cast<size_t>(spec.width + std::max<int64_t>(0, spec.precision))));
  if (spec.kind == '%') {
    out_.append('%');
    return {};
  }
  if (spec.kind == 's' || spec.kind == 'r' || spec.kind == 'a') {
    const Value v = OCTAVO_TRY(next_value());
    OCTAVO_TRY(rt_.charge_walk(v));
    TextBuilder shown;
    if (spec.kind == 's') {
      append_str(shown, v);
    } else {
      append_repr(shown, v);
    }
    Str body{shown.text(), shown.taint()};
    if (pattern_.markup) {
      const bool safe = spec.kind == 's' && v.is_string() && v.str().markup;
      const Value plain = OCTAVO_TRY(rt_.make_text(shown));
      if (!safe) body = *OCTAVO_TRY(escape_markup(rt_, plain));
    }
    const size_t end = spec.precision < 0
                           ? body.text.size()
                           : char_offset(body.text, static_cast<size_t>(spec.precision));
    const Str cut{body.text.substr(0, end), spans_within(body.taint, 0, end)};
    TextBuilder clipped;
    clipped.append(cut);
    append_padded(out_, {clipped.text(), clipped.taint()}, spec, '>');
    return {};
  }
  if (zero && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  const Value v = OCTAVO_TRY(next_value());
  return spec.kind == 'c' ? append_char(v, spec) : append_number(v, spec);
}

Status PercentFormatter::append_char(const Value& v, const FormatSpec& spec) {
  if (v.is_string() && char_count(v.text()) == 1) {
    append_padded(out_, v.str(), spec, '>');
    return {};
  }
  if (!v.is_integral() || v.integer() < 0 || v.integer() > 0x10FFFF) {
    return invalid_argument("%c needs a character or its number");
  }
  std::string character;
  utf8_append(character, static_cast<char32_t>(v.integer()));
  append_padded(out_, {character, {}}, spec, '>');
  return {};
}

Status PercentFormatter::append_number(const Value& v, const FormatSpec& spec) {
  if (!v.is_number()) {
    if (v.is_undefined()) return invalid_argument(v.undefined().message());
    return invalid_argument(format("%{} needs a number, not '{}'", spec.kind, type_name(v)));
  }
  bool negative = false;
  std::string digits;
  if (is_kind(spec.kind, "diu")) {
    Value whole = v;
    if (v.is(Kind::kFloat)) {
      if (!(std::abs(v.real()) < 0x1p63)) return invalid_argument("%d needs a finite number");
      whole = Value::integer(static_cast<int64_t>(v.real()));
    }
    digits = integer_digits(whole, spec, negative);
  } else if (is_kind(spec.kind, "xXo")) {
    if (v.is(Kind::kFloat)) return invalid_argument("%x needs an integer");
    digits = integer_digits(v, spec, negative);
  } else if (is_kind(spec.kind, "eEfFgG")) {
    negative = std::signbit(to_double(v)) && !std::isnan(to_double(v));
    digits = float_digits(to_double(v), spec);
  } else {
    return invalid_argument(format("the format has an unknown conversion '{}'", spec.kind));
  }
  FormatSpec padded = spec;
  padded.alternate = spec.alternate && (spec.kind == 'x' || spec.kind == 'X' || spec.kind == 'o');
  if (digits.size() < static_cast<size_t>(std::max<int64_t>(0, spec.precision)) &&
      is_kind(spec.kind, "diuxXo")) {
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  const std::string body = with_sign(negative, spec.sign, digits);
  append_padded(out_, {body, {}}, padded, '>');
  return {};
}

}  // namespace

Result<Value> format_percent(Runtime& rt, const Str& pattern, const Value& values) {
  return PercentFormatter(rt, pattern, values).run();
}

}  // namespace octavo::tokenizer::jinja
