// Tests: what may follow `is`.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/select.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer::jinja {
namespace {

using Test = Result<bool>;

Status no_arguments(const CallArgs& args) {
  if (args.positional.empty() && args.keyword.empty()) return {};
  return invalid_argument("this test takes no arguments");
}

// A test that only looks at the value.
template <bool (*predicate)(const Value&)>
Test simple(Runtime&, const Value& v, const CallArgs& args) {
  OCTAVO_TRY(no_arguments(args));
  return predicate(v);
}

bool is_defined(const Value& v) {
  return !v.is_undefined();
}
bool is_undefined(const Value& v) {
  return v.is_undefined();
}
bool is_none(const Value& v) {
  return v.is_none();
}
bool is_boolean(const Value& v) {
  return v.is(Kind::kBool);
}
bool is_true(const Value& v) {
  return v.is(Kind::kBool) && v.boolean();
}
bool is_false(const Value& v) {
  return v.is(Kind::kBool) && !v.boolean();
}
bool is_integer(const Value& v) {
  return v.is(Kind::kInt) || v.is(Kind::kBigInt);
}
bool is_float(const Value& v) {
  return v.is(Kind::kFloat);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_string(const Value& v) {
  return v.is_string();
}
bool is_mapping(const Value& v) {
  return v.is_dict();
}
bool is_sequence(const Value& v) {  // has a length and can be subscripted
  if (!v.is(Kind::kSequence)) return v.is_string() || v.is_dict() || v.is_undefined();
  return !v.sequence().is_dict_view() && v.sequence().kind != SequenceKind::kIterator;
}
bool is_iterable(const Value& v) {
  return v.is(Kind::kSequence) || v.is_string() || v.is_dict() || v.is_undefined() ||
         v.is(Kind::kLoop);
}
bool is_callable(const Value& v) {
  return v.is(Kind::kMacro) || v.is(Kind::kMethod) || v.is(Kind::kFunction) || v.is(Kind::kLoop) ||
         v.is(Kind::kJoiner) || v.is_undefined();
}
bool is_escaped(const Value& v) {
  return v.is_string() && v.str().markup;
}

// Whether some character is cased and all that are have the wanted case.
Test all_cased(Runtime& rt, const Value& v, bool (*wanted)(char32_t)) {
  const std::string_view text = OCTAVO_TRY(rt.to_text(v))->text;
  OCTAVO_TRY(rt.charge_chars(text.size()));
  bool found = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = utf8_decode(text, i);
    i += c.size_bytes;
    if (!unicode_is_cased(c.code_point)) continue;
    if (!wanted(c.code_point)) return false;
    found = true;
  }
  return found;
}
Test test_lower(Runtime& rt, const Value& v, const CallArgs& args) {
  OCTAVO_TRY(no_arguments(args));
  return all_cased(rt, v, unicode_is_lower);
}
Test test_upper(Runtime& rt, const Value& v, const CallArgs& args) {
  OCTAVO_TRY(no_arguments(args));
  return all_cased(rt, v, unicode_is_upper);
}

Test remainder_is(Runtime& rt, const Value& v, const Value& divisor, int64_t wanted) {
  if (v.is_string()) return invalid_argument("a string has no remainder");
  return equals(OCTAVO_TRY(rt.modulo(v, divisor)), Value::integer(wanted));
}
Test test_odd(Runtime& rt, const Value& v, const CallArgs& args) {
  OCTAVO_TRY(no_arguments(args));
  return remainder_is(rt, v, Value::integer(2), 1);
}
Test test_even(Runtime& rt, const Value& v, const CallArgs& args) {
  OCTAVO_TRY(no_arguments(args));
  return remainder_is(rt, v, Value::integer(2), 0);
}
Test test_divisible_by(Runtime& rt, const Value& v, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {"num"}, 1));
  return remainder_is(rt, v, bound[0], 0);
}

Test test_in(Runtime& rt, const Value& v, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {"seq"}, 1));
  return rt.contains(bound[0], v);
}
Test test_same_as(Runtime&, const Value& v, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {"other"}, 1));
  return identical(v, bound[0]);
}
Test test_equal(Runtime& rt, const Value& v, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {""}, 1));
  OCTAVO_TRY(charge_comparison(rt, v, bound[0]));
  return equals(v, bound[0]);
}
Test test_not_equal(Runtime& rt, const Value& v, const CallArgs& args) {
  return !OCTAVO_TRY(test_equal(rt, v, args));
}

// The order of value and argument; 2 where a number is NaN.
Result<int> order_of(Runtime& rt, const Value& v, const CallArgs& args) {
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {""}, 1));
  OCTAVO_TRY(charge_comparison(rt, v, bound[0]));
  return compare(v, bound[0]);
}
Test test_less(Runtime& rt, const Value& v, const CallArgs& args) {
  return OCTAVO_TRY(order_of(rt, v, args)) == -1;
}
Test test_less_equal(Runtime& rt, const Value& v, const CallArgs& args) {
  return OCTAVO_TRY(order_of(rt, v, args)) <= 0;
}
Test test_greater(Runtime& rt, const Value& v, const CallArgs& args) {
  return OCTAVO_TRY(order_of(rt, v, args)) == 1;
}
Test test_greater_equal(Runtime& rt, const Value& v, const CallArgs& args) {
  const int order = OCTAVO_TRY(order_of(rt, v, args));
  return order == 0 || order == 1;
}

Test test_filter_exists(Runtime&, const Value& v, const CallArgs& args) {
  OCTAVO_TRY(no_arguments(args));
  return v.is_string() && find_filter(v.text()) != nullptr;
}
Test test_test_exists(Runtime&, const Value& v, const CallArgs& args) {
  OCTAVO_TRY(no_arguments(args));
  return v.is_string() && find_test(v.text()) != nullptr;
}

constexpr Named<TestFn> kTests[] = {
    {"defined", simple<is_defined>},
    {"undefined", simple<is_undefined>},
    {"none", simple<is_none>},
    {"boolean", simple<is_boolean>},
    {"true", simple<is_true>},
    {"false", simple<is_false>},
    {"integer", simple<is_integer>},
    {"float", simple<is_float>},
    {"number", simple<is_number>},
    {"string", simple<is_string>},
    {"mapping", simple<is_mapping>},
    {"sequence", simple<is_sequence>},
    {"iterable", simple<is_iterable>},
    {"callable", simple<is_callable>},
    {"escaped", simple<is_escaped>},
    {"lower", test_lower},
    {"upper", test_upper},
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisible_by},
    {"in", test_in},
    {"sameas", test_same_as},
    {"eq", test_equal},
    {"==", test_equal},
    {"equalto", test_equal},
    {"ne", test_not_equal},
    {"!=", test_not_equal},
    {"lt", test_less},
    {"<", test_less},
    {"lessthan", test_less},
    {"le", test_less_equal},
    {"<=", test_less_equal},
    {"gt", test_greater},
    {">", test_greater},
    {"greaterthan", test_greater},
    {"ge", test_greater_equal},
    {">=", test_greater_equal},
    {"filter", test_filter_exists},
    {"test", test_test_exists},
};

}  // namespace

TestFn find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [name](const Named<TestFn>& t) { return t.name == name; });
  return found == std::end(kTests) ? nullptr : found->fn;
}

}  // namespace octavo::tokenizer::jinja
