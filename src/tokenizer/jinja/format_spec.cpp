#include "tokenizer/jinja/format_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.h"

namespace octavo::tokenizer::jinja {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;

}  // namespace

Result<Value> formatted_text(Runtime& rt, const Str& pattern, const TextBuilder& out) {
  if (pattern.taint.empty()) return rt.make_text(out);
  TextBuilder tainted;
  tainted.append_marked(out.text(), true);
  return rt.make_text(tainted);
}

Result<int64_t> parse_count(std::string_view text, size_t& pos) {
  int64_t value = 0;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    value = value * 10 + (text[pos++] - '0');
    if (value > kMaxWidth) return invalid_argument("a width or precision is too large");
  }
  return value;
}

void append_padded(TextBuilder& out, const Str& body, const FormatSpec& spec, char default_align) {
  const auto length = static_cast<int64_t>(char_count(body.text));
  const int64_t margin = std::max<int64_t>(0, spec.width - length);
  const char align = spec.align == '\0' ? default_align : spec.align;
  const int64_t before = align == '<' ? 0 : align == '^' ? margin / 2 : margin;
  size_t sign = 0;
  if (align == '=' && !body.text.empty()) {
    sign = std::string_view("+- ").find(body.text[0]) != std::string_view::npos ? 1 : 0;
    if (spec.alternate) sign += 2;
  }
  out.append(body, 0, sign);
  for (int64_t i = 0; i < before; ++i) out.append(spec.fill);
  out.append(body, sign, body.text.size());
  for (int64_t i = before; i < margin; ++i) out.append(spec.fill);
}

std::string with_sign(bool negative, char sign, const std::string& digits) {
  if (negative) return "-" + digits;
  return sign == '-' ? digits : sign + digits;
}

std::string integer_digits(const Value& v, const FormatSpec& spec, bool& negative) {
  if (v.is(Kind::kBigInt)) {
    negative = v.text().starts_with('-');
    return std::string(v.text().substr(negative ? 1 : 0));
  }
  negative = v.integer() < 0;
  const uint64_t magnitude =
      negative ? ~static_cast<uint64_t>(v.integer()) + 1 : static_cast<uint64_t>(v.integer());
  switch (spec.kind) {
    case 'x':
      return (spec.alternate ? "0x" : "") + format("{:x}", magnitude);
    case 'X':
      return (spec.alternate ? "0X" : "") + format("{:X}", magnitude);
    case 'o':
      return (spec.alternate ? "0o" : "") + format("{:o}", magnitude);
    case 'b':
      return (spec.alternate ? "0b" : "") + format("{:b}", magnitude);
    default:
      return format("{}", magnitude);
  }
}

std::string float_digits(double d, const FormatSpec& spec) {
  const char kind = spec.kind == '\0' ? 'g' : static_cast<char>(spec.kind | 0x20);
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  if (!std::isfinite(d)) return std::isnan(d) ? "nan" : "inf";
  std::string buffer(static_cast<size_t>(precision) + 400, '\0');
  const auto printf_format = kind == 'e'   ? std::chars_format::scientific
                             : kind == 'f' ? std::chars_format::fixed
                                           : std::chars_format::general;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(d),
                                 printf_format, kind == 'g' ? std::max(precision, 1) : precision);
  buffer.resize(static_cast<size_t>(end.ptr - buffer.data()));
  if (spec.kind >= 'A' && spec.kind <= 'Z') {
    for (char& c : buffer) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  }
  return buffer;
}

}  // namespace octavo::tokenizer::jinja
