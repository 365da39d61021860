// Operators with Python's meaning, and slices.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/runtime.h"

namespace octavo::tokenizer::jinja {
namespace {

Status too_large() {
  return invalid_argument("an integer beyond 64 bits");
}

Status no_operator(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) return invalid_argument(a.undefined().message());
  if (b.is_undefined()) return invalid_argument(b.undefined().message());
  if (a.is_number() && b.is_number()) return too_large();
  return invalid_argument(
      format("'{}' cannot be applied to '{}' and '{}'", op, type_name(a), type_name(b)));
}

Status division_by_zero() {
  return invalid_argument("division by zero");
}

bool are_integers(const Value& a, const Value& b) {
  return a.is_integral() && b.is_integral();
}

// Numbers that arithmetic works on: not those beyond 64 bits.
bool are_numbers(const Value& a, const Value& b) {
  return a.is_number() && b.is_number() && !a.is(Kind::kBigInt) && !b.is(Kind::kBigInt);
}

bool is_list_or_tuple(const Value& v) {
  return v.is(Kind::kSequence) &&
         (v.sequence().kind == SequenceKind::kList || v.sequence().is_tuple());
}

// Quotient rounded down and a remainder with the divisor's sign; `b` is not zero.
struct Division {
  int64_t quotient;
  int64_t remainder;
};
Division floor_division(int64_t a, int64_t b) {
  Division d{a / b, a % b};
  if (d.remainder != 0 && (d.remainder < 0) != (b < 0)) {
    --d.quotient;
    d.remainder += b;
  }
  return d;
}

double float_modulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  if ((remainder < 0) != (b < 0)) remainder += b;
  return remainder;
}

Result<Value> concatenate(Runtime& rt, const Str& a, const Str& b) {
  TextBuilder out;
  out.append(a);
  out.append(b);
  return rt.make_text(out);
}

// Markup escapes what is added to it.
Result<Value> add_markup(Runtime& rt, const Value& a, const Value& b) {
  const Str* left = OCTAVO_TRY(escape_markup(rt, a));
  const Str* right = OCTAVO_TRY(escape_markup(rt, b));
  const Value sum = OCTAVO_TRY(concatenate(rt, *left, *right));
  return Value::of(rt.heap().make<Str>(sum.text(), sum.str().taint, true));
}

Result<Value> power_of_integers(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return division_by_zero();
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return too_large();
  }
  return Value::integer(result);
}

struct SliceBounds {
  int64_t start;
  int64_t step;
  int64_t count;
};

// Python's slice.indices.
Result<SliceBounds> slice_bounds(const Value& start, const Value& stop, const Value& step,
                                 int64_t length) {
  const auto given = [](const Value& v) { return !v.missing() && !v.is_none(); };
  const int64_t by = given(step) ? OCTAVO_TRY(to_index(step, "a slice's step")) : 1;
  if (by == 0) return invalid_argument("a slice's step cannot be zero");
  if (by == INT64_MIN) return too_large();
  const int64_t low = by < 0 ? -1 : 0;
  const int64_t high = by < 0 ? length - 1 : length;
  const auto bound = [&](const Value& v, int64_t otherwise) -> Result<int64_t> {
    if (!given(v)) return otherwise;
    const int64_t index = OCTAVO_TRY(to_index(v, "a slice's bound"));
    return std::clamp(index < 0 ? index + length : index, low, high);
  };
  const int64_t first = OCTAVO_TRY(bound(start, by < 0 ? high : low));
  const int64_t last = OCTAVO_TRY(bound(stop, by < 0 ? low : high));
  const int64_t span = by < 0 ? first - last : last - first;
  const int64_t stride = std::abs(by);
  return SliceBounds{first, by, span <= 0 ? 0 : (span - 1) / stride + 1};
}

}  // namespace

Result<Value> Runtime::unary(bool negate, const Value& v) {
  if (v.is_undefined()) return invalid_argument(v.undefined().message());
  if (v.is(Kind::kFloat)) return Value::real(negate ? -v.real() : v.real());
  if (v.is(Kind::kBigInt)) return too_large();
  if (!v.is_integral()) {
    return invalid_argument(format("'{}' has no sign", type_name(v)));
  }
  if (negate && v.integer() == INT64_MIN) return too_large();
  return Value::integer(negate ? -v.integer() : v.integer());
}

Result<Value> Runtime::add(const Value& a, const Value& b) {
  if (are_integers(a, b)) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a.integer(), b.integer(), &sum)) return too_large();
    return Value::integer(sum);
  }
  if (are_numbers(a, b)) return Value::real(to_double(a) + to_double(b));
  if (a.is_string() && b.is_string()) {
    if (a.str().markup || b.str().markup) return add_markup(*this, a, b);
    return concatenate(*this, a.str(), b.str());
  }
  if (is_list_or_tuple(a) && is_list_or_tuple(b) &&
      a.sequence().is_tuple() == b.sequence().is_tuple()) {
    std::vector<Value> items(a.sequence().items.begin(), a.sequence().items.end());
    items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
    OCTAVO_TRY(charge(static_cast<int64_t>(items.size())));
    return a.sequence().is_tuple() ? heap_.tuple(items) : heap_.list(items);
  }
  return no_operator("+", a, b);
}

Result<Value> Runtime::subtract(const Value& a, const Value& b) {
  if (are_integers(a, b)) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a.integer(), b.integer(), &difference)) return too_large();
    return Value::integer(difference);
  }
  if (are_numbers(a, b)) return Value::real(to_double(a) - to_double(b));
  return no_operator("-", a, b);
}

Result<Value> Runtime::repeat(const Value& sequence, const Value& count) {
  const int64_t times = std::max<int64_t>(0, count.integer());
  if (sequence.is_string()) {
    const Str& s = sequence.str();
    if (s.text.empty() || times == 0) return Value::of(heap_.borrow({}));
    if (times > static_cast<int64_t>(kMaxTextBytes / s.text.size())) {
      return invalid_argument("a text is longer than 64 MiB");
    }
    OCTAVO_TRY(charge(times));
    TextBuilder out;
    for (int64_t i = 0; i < times; ++i) out.append(s);
    return make_text(out);
  }
  const std::span<const Value> items = sequence.sequence().items;
  const auto size = static_cast<int64_t>(items.size());
  if (size > 0 && times > kMaxSteps / size) return charge(kMaxSteps + 1);
  OCTAVO_TRY(charge(size * times));
  std::vector<Value> out;
  for (int64_t i = 0; i < times && size > 0; ++i) out.insert(out.end(), items.begin(), items.end());
  return sequence.sequence().is_tuple() ? heap_.tuple(out) : heap_.list(out);
}

Result<Value> Runtime::multiply(const Value& a, const Value& b) {
  if (are_integers(a, b)) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a.integer(), b.integer(), &product)) return too_large();
    return Value::integer(product);
  }
  if (are_numbers(a, b)) return Value::real(to_double(a) * to_double(b));
  if ((a.is_string() || is_list_or_tuple(a)) && b.is_integral()) return repeat(a, b);
  if ((b.is_string() || is_list_or_tuple(b)) && a.is_integral()) return repeat(b, a);
  return no_operator("*", a, b);
}

Result<Value> Runtime::divide(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) return no_operator("/", a, b);
  if (to_double(b) == 0) return division_by_zero();
  return Value::real(to_double(a) / to_double(b));
}

Result<Value> Runtime::floor_divide(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) return no_operator("//", a, b);
  if (to_double(b) == 0) return division_by_zero();
  if (are_integers(a, b)) {
    if (b.integer() == -1) return multiply(a, b);  // the one quotient that can overflow
    return Value::integer(floor_division(a.integer(), b.integer()).quotient);
  }
  const double divisor = to_double(b);
  const double quotient = (to_double(a) - float_modulo(to_double(a), divisor)) / divisor;
  const double rounded = std::floor(quotient);
  return Value::real(quotient - rounded > 0.5 ? rounded + 1 : rounded);
}

Result<Value> Runtime::modulo(const Value& a, const Value& b) {
  if (a.is_string()) return format_percent(*this, a.str(), b);
  if (!are_numbers(a, b)) return no_operator("%", a, b);
  if (to_double(b) == 0) return division_by_zero();
  if (!are_integers(a, b)) return Value::real(float_modulo(to_double(a), to_double(b)));
  if (b.integer() == -1) return Value::integer(0);
  return Value::integer(floor_division(a.integer(), b.integer()).remainder);
}

Result<Value> Runtime::power(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) return no_operator("**", a, b);
  if (are_integers(a, b)) return power_of_integers(a.integer(), b.integer());
  const double base = to_double(a);
  const double exponent = to_double(b);
  if (base == 0 && exponent < 0) return division_by_zero();
  const double result = std::pow(base, exponent);
  const bool finite_arguments = std::isfinite(base) && std::isfinite(exponent);
  if (finite_arguments && !std::isfinite(result)) {
    return invalid_argument(std::isnan(result) ? "the power is not a real number"
                                               : "the power is too large");
  }
  return Value::real(result);
}

Result<Value> Runtime::slice_range(const Sequence& range, int64_t start, int64_t step,
                                   int64_t count) {
  std::vector<Value> items;
  for (int64_t i = 0; i < count; ++i) items.push_back(range.items[start + i * step]);
  const Value out = OCTAVO_TRY(heap_.sequence(SequenceKind::kRange, items));
  Sequence& sliced = out.sequence();
  // The first of no items may lie outside of the range.
  if (__builtin_mul_overflow(start, range.step, &sliced.start) ||
      __builtin_add_overflow(sliced.start, range.start, &sliced.start) ||
      __builtin_mul_overflow(range.step, step, &sliced.step) ||
      __builtin_mul_overflow(count, sliced.step, &sliced.stop) ||
      __builtin_add_overflow(sliced.stop, sliced.start, &sliced.stop)) {
    return too_large();
  }
  return out;
}

Result<Value> Runtime::slice(const Value& object, const Value& start, const Value& stop,
                             const Value& step) {
  if (object.is_undefined()) return invalid_argument(object.undefined().message());
  const bool sliceable =
      object.is_string() || is_list_or_tuple(object) ||
      (object.is(Kind::kSequence) && object.sequence().kind == SequenceKind::kRange);
  if (!sliceable) {
    return invalid_argument(format("'{}' object cannot be sliced", type_name(object)));
  }
  const int64_t size = OCTAVO_TRY(length(object));
  const SliceBounds bounds = OCTAVO_TRY(slice_bounds(start, stop, step, size));
  if (object.is_string() && bounds.step == 1) {
    const std::string_view text = object.text();
    const size_t begin = char_offset(text, static_cast<size_t>(bounds.start));
    const size_t bytes = char_offset(text.substr(begin), static_cast<size_t>(bounds.count));
    return Value::of(heap_.substr(object.str(), begin, begin + bytes));
  }
  if (object.is_string()) {
    const std::span<const Value> chars = OCTAVO_TRY(iterate(object));
    TextBuilder out;
    for (int64_t i = 0; i < bounds.count; ++i) {
      out.append(chars[bounds.start + i * bounds.step].str());
    }
    return make_text(out);
  }
  const Sequence& s = object.sequence();
  if (s.kind == SequenceKind::kRange) {
    return slice_range(s, bounds.start, bounds.step, bounds.count);
  }
  if (bounds.step == 1) {
    const SequenceKind kind = s.is_tuple() ? SequenceKind::kTuple : SequenceKind::kList;
    OCTAVO_TRY(charge(bounds.count));
    return heap_.sequence(kind, s.items.subspan(bounds.start, bounds.count));
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < bounds.count; ++i) {
    items.push_back(s.items[bounds.start + i * bounds.step]);
  }
  return s.is_tuple() ? heap_.tuple(items) : heap_.list(items);
}

}  // namespace octavo::tokenizer::jinja
