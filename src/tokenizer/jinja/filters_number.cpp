// Filters on numbers, and those that give any value back: default and attr.
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/decimal.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/text.h"

namespace octavo::tokenizer::jinja {
namespace {

using Args = const CallArgs&;
__extension__ using Int128 = __int128;

std::string_view stripped(std::string_view text) {
  const TextSpan span = strip_span(text, Strip::kBoth, nullptr);
  return text.substr(span.begin, span.end - span.begin);
}

// Single underscores between digits are allowed, as in Python's literals; false where they are not.
bool drop_underscores(std::string& digits) {
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') continue;
    const bool between = i > 0 && i + 1 < digits.size() &&
                         std::isalnum(static_cast<unsigned char>(digits[i - 1])) != 0 &&
                         std::isalnum(static_cast<unsigned char>(digits[i + 1])) != 0;
    if (!between) return false;
  }
  std::erase(digits, '_');
  return true;
}

// Python's int(text, base); kMissing where that raises.
Result<Value> parse_int(Runtime& rt, std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return Value();
  std::string digits(stripped(text));
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const char prefix =
      digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int64_t prefixed = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    digits.erase(0, digits[2] == '_' ? 3 : 2);
    base = prefixed;
  }
  const bool literal = base == 0;
  if (literal) base = 10;
  if (!drop_underscores(digits) || digits.empty()) return Value();
  const size_t significant = digits.find_first_not_of('0');
  if (significant == std::string::npos) return Value::integer(0);
  if (literal && significant > 0) return Value();  // 010 is no literal
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (parsed.ptr != end || !std::isalnum(static_cast<unsigned char>(digits[0]))) return Value();
  constexpr uint64_t kLimit = uint64_t{1} << 63;
  if (parsed.ec == std::errc() && value < kLimit + (negative ? 1 : 0)) {
    return Value::integer(static_cast<int64_t>(negative ? ~value + 1 : value));
  }
  if (base != 10) return invalid_argument("an integer beyond 64 bits");
  digits.erase(0, significant);
  return Value::big_int(rt.heap().str((negative ? "-" : "") + digits));
}

// Python's float(text); kMissing where that raises.
Value parse_float(std::string_view text) {
  std::string digits(stripped(text));
  if (!drop_underscores(digits)) return Value();
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return Value();
  const bool is_nan = rest.size() > 3 && (rest[0] | 0x20) == 'n';  // nan(...) is not Python's
  double value = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (is_nan || parsed.ptr != rest.data() + rest.size()) return Value();
  if (parsed.ec == std::errc::result_out_of_range) value = parse_decimal(digits);
  return Value::real(negative ? -std::abs(value) : value);
}

Result<Value> truncated(double d) {
  if (d >= 0x1p63 || d < -0x1p63) return invalid_argument("an integer beyond 64 bits");
  return Value::integer(static_cast<int64_t>(d));
}

Result<Value> filter_int(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"default", "base"}, 0));
  if (v.is_undefined()) return invalid_argument(v.undefined().message());
  const Value otherwise = bound[0].missing() ? Value::integer(0) : bound[0];
  Value number = v;
  if (v.is_string()) {
    OCTAVO_TRY(rt.charge_chars(v.text().size()));
    // A base that is no integer fails like a text that is no number.
    const int64_t base = bound[1].missing() ? 10 : bound[1].is_integral() ? bound[1].integer() : -1;
    const Value parsed = OCTAVO_TRY(parse_int(rt, v.text(), base));
    if (!parsed.missing()) return parsed;
    number = parse_float(v.text());
  }
  if (number.is(Kind::kBigInt)) return number;
  if (number.is_integral()) return Value::integer(number.integer());
  if (number.is(Kind::kFloat) && std::isfinite(number.real())) return truncated(number.real());
  // int(float("inf")) overflows at once, before there is a default.
  if (v.is(Kind::kFloat) && std::isinf(v.real())) {
    return invalid_argument("infinity is not an integer");
  }
  return otherwise;
}

Result<Value> filter_float(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {"default"}, 0));
  if (v.is_undefined()) return invalid_argument(v.undefined().message());
  if (v.is_number()) return Value::real(to_double(v));
  if (v.is_string()) {
    OCTAVO_TRY(rt.charge_chars(v.text().size()));
    const Value parsed = parse_float(v.text());
    if (!parsed.missing()) return parsed;
  }
  return bound[0].missing() ? Value::real(0.0) : bound[0];
}

Result<Value> filter_abs(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  if (!v.is_number()) {
    return invalid_argument(format("'{}' has no absolute value", type_name(v)));
  }
  if (v.is(Kind::kFloat)) return Value::real(std::abs(v.real()));
  return rt.unary(v.is(Kind::kBigInt) || v.integer() < 0, v);
}

// Python's round: correctly rounded decimal digits, ties to even.
double round_half_even(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 323) return value;
  if (precision < -308) return std::copysign(0.0, value);
  if (precision < 0) {
    const double power = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / power) * power;
  }
  char buffer[1024];  // 309 digits before the point, 323 behind it
  const auto printed = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                     std::chars_format::fixed, static_cast<int>(precision));
  double rounded = value;
  std::from_chars(buffer, printed.ptr, rounded);
  return rounded;
}

Result<Value> round_integer(const Value& v, int64_t precision) {
  if (precision >= 0) return Value::integer(v.integer());
  if (precision < -18) return Value::integer(0);
  Int128 power = 1;  // in 128 bits, as the result may be beyond 64
  for (int64_t i = precision; i < 0; ++i) power *= 10;
  const Int128 value = v.integer();
  const Int128 low = value - ((value % power) + power) % power;
  const Int128 above = value - low;
  const bool odd = (low / power) % 2 != 0;
  const bool up = above * 2 > power || (above * 2 == power && odd);
  const Int128 rounded = up ? low + power : low;
  if (rounded > INT64_MAX || rounded < INT64_MIN) {
    return invalid_argument("an integer beyond 64 bits");
  }
  return Value::integer(static_cast<int64_t>(rounded));
}

Result<Value> filter_round(Runtime&, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"precision", "method"}, 0));
  const int64_t precision = bound[0].missing() ? 0 : OCTAVO_TRY(to_index(bound[0], "precision"));
  const std::string_view method = bound[1].missing()     ? "common"
                                  : bound[1].is_string() ? bound[1].text()
                                                         : std::string_view();
  if (method != "common" && method != "ceil" && method != "floor") {
    return invalid_argument("the method must be common, ceil or floor");
  }
  if (!v.is_number() || v.is(Kind::kBigInt)) {
    return invalid_argument(format("'{}' cannot be rounded", type_name(v)));
  }
  if (method == "common") {
    if (v.is_integral()) return round_integer(v, precision);
    return Value::real(round_half_even(v.real(), precision));
  }
  const double power = std::pow(10.0, static_cast<double>(precision));
  const double scaled = to_double(v) * power;
  if (!std::isfinite(scaled)) return invalid_argument("the number cannot be rounded");
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / power);
}

Result<Value> filter_default(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"default_value", "boolean"}, 0));
  if (!v.is_undefined() && (!truthy(bound[1]) || truthy(v))) return v;
  return bound[0].missing() ? Value::of(rt.heap().borrow({})) : bound[0];
}

// Attributes only: never the item of that name.
Result<Value> filter_attr(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<1>(args, {"name"}, 1));
  const Str* name = OCTAVO_TRY(to_string_argument(bound[0], "an attribute's name"));
  if (v.is_dict() && find_container_method(v, name->text) == nullptr) {
    return Value::of(rt.heap().make<Undefined>(std::string_view(), type_name(v), bound[0]));
  }
  return rt.get_attribute(v, *name);
}

constexpr Named<FilterFn> kNumberFilters[] = {
    {"int", filter_int},     {"float", filter_float},     {"abs", filter_abs},
    {"round", filter_round}, {"default", filter_default}, {"d", filter_default},
    {"attr", filter_attr},   {"tojson", filter_tojson},   {"from_json", filter_from_json},
};

}  // namespace

std::span<const Named<FilterFn>> number_filters() {
  return kNumberFilters;
}

}  // namespace octavo::tokenizer::jinja
