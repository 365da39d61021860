// The filters that look into each item: map, select, reject and their attribute forms.
#include "tokenizer/jinja/select.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/check.h"
#include "base/format.h"

namespace octavo::tokenizer::jinja {
namespace {

using Args = const CallArgs&;

// map('map', 'map', …) calls as many filters within one another.
constexpr size_t kMaxMapArguments = 200;

CallArgs drop_first(const CallArgs& args, size_t count) {
  CallArgs rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         args.positional.end());
  rest.keyword = args.keyword;
  return rest;
}

Result<Value> map_attribute(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"attribute", "default"}, 1));
  const AttributePath path = OCTAVO_TRY(AttributePath::parse(rt, bound[0]));
  std::vector<Value> out;
  for (const Value& item : OCTAVO_TRY(rt.iterate(v))) {
    out.push_back(OCTAVO_TRY(path.get(rt, item, bound[1])));
  }
  return rt.heap().iterator(out);
}

Result<Value> filter_map(Runtime& rt, const Value& v, Args args) {
  if (!truthy(v)) return rt.heap().iterator({});
  const bool by_attribute =
      args.positional.empty() &&
      std::any_of(args.keyword.begin(), args.keyword.end(),
                  [](const auto& keyword) { return keyword.first->text == "attribute"; });
  if (by_attribute) return map_attribute(rt, v, args);
  if (args.positional.empty()) return invalid_argument("map needs the name of a filter");
  if (args.positional.size() > kMaxMapArguments) {
    return invalid_argument(format("map takes at most {} arguments", kMaxMapArguments));
  }
  const Str* name = OCTAVO_TRY(to_string_argument(args.positional[0], "a filter's name"));
  const FilterFn filter = find_filter(name->text);
  const CallArgs rest = drop_first(args, 1);
  std::vector<Value> out;
  for (const Value& item : OCTAVO_TRY(rt.iterate(v))) {
    if (filter == nullptr) return invalid_argument(format("no filter named '{}'", name->text));
    out.push_back(OCTAVO_TRY(filter(rt, item, rest)));
  }
  return rt.heap().iterator(out);
}

// Keeps the items whose test, on themselves or on an attribute, comes out as `wanted`.
Result<Value> select_items(Runtime& rt, const Value& v, Args args, bool by_attribute, bool wanted) {
  if (!truthy(v)) return rt.heap().iterator({});
  AttributePath path;
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute) {
    if (args.positional.empty()) return invalid_argument("the attribute's name is missing");
    path = OCTAVO_TRY(AttributePath::parse(rt, args.positional[0]));
  }
  const bool has_test = args.positional.size() > test_at;
  TestFn test = nullptr;
  CallArgs rest;
  if (has_test) {
    const Str* name = OCTAVO_TRY(to_string_argument(args.positional[test_at], "a test's name"));
    test = find_test(name->text);
    if (test == nullptr) return invalid_argument(format("no test named '{}'", name->text));
    rest = drop_first(args, test_at + 1);
  }
  std::vector<Value> out;
  for (const Value& item : OCTAVO_TRY(rt.iterate(v))) {
    const Value tested = OCTAVO_TRY(path.get(rt, item));
    const bool holds = has_test ? OCTAVO_TRY(test(rt, tested, rest)) : truthy(tested);
    if (holds == wanted) out.push_back(item);
  }
  return rt.heap().iterator(out);
}

template <bool by_attribute, bool wanted>
Result<Value> filter_select(Runtime& rt, const Value& v, Args args) {
  return select_items(rt, v, args, by_attribute, wanted);
}

constexpr Named<FilterFn> kSelectFilters[] = {
    {"map", filter_map},
    {"select", filter_select<false, true>},
    {"reject", filter_select<false, false>},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<true, false>},
};

// A stable merge sort that stops at the first comparison that fails.
class MergeSort {
 public:
  MergeSort(Runtime& rt, std::span<const Value> keys, bool reverse)
      : rt_(rt), keys_(keys), reverse_(reverse), scratch_(keys.size()) {}

  Status sort(std::span<size_t> order) {
    if (order.size() < 2) return {};
    const size_t middle = order.size() / 2;
    OCTAVO_TRY(sort(order.first(middle)));
    OCTAVO_TRY(sort(order.subspan(middle)));
    size_t left = 0;
    size_t right = middle;
    for (size_t i = 0; i < order.size(); ++i) {
      const bool take_left = right == order.size() ||
                             (left < middle && OCTAVO_TRY(keeps_order(order[left], order[right])));
      scratch_[i] = order[take_left ? left++ : right++];
    }
    std::copy_n(scratch_.begin(), order.size(), order.begin());
    return {};
  }

 private:
  Result<bool> keeps_order(size_t first, size_t second) {
    const Value& a = keys_[reverse_ ? first : second];
    const Value& b = keys_[reverse_ ? second : first];
    OCTAVO_TRY(charge_comparison(rt_, a, b));
    return OCTAVO_TRY(compare(a, b)) != -1;
  }

  Runtime& rt_;
  std::span<const Value> keys_;
  bool reverse_;
  std::vector<size_t> scratch_;
};

}  // namespace

Result<AttributePath> AttributePath::parse(Runtime& rt, const Value& attribute) {
  AttributePath path;
  if (attribute.missing() || attribute.is_none()) return path;
  if (!attribute.is_string()) {
    path.parts_.push_back(attribute);
    return path;
  }
  const Str& s = attribute.str();
  for (size_t begin = 0; begin <= s.text.size();) {
    const size_t end = std::min(s.text.find('.', begin), s.text.size());
    const std::string_view part = s.text.substr(begin, end - begin);
    const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    int64_t index = 0;
    if (is_number &&
        std::from_chars(part.data(), part.data() + part.size(), index).ec == std::errc()) {
      path.parts_.push_back(Value::integer(index));
    } else {
      path.parts_.push_back(Value::of(rt.heap().substr(s, begin, end)));
    }
    begin = end + 1;
  }
  return path;
}

Result<Value> AttributePath::get(Runtime& rt, const Value& item, const Value& otherwise) const {
  Value value = item;
  OCTAVO_TRY(rt.charge(static_cast<int64_t>(parts_.size())));
  for (const Value& part : parts_) {
    value = OCTAVO_TRY(rt.get_item(value, part));
    const bool has_default = !otherwise.missing() && !otherwise.is_none();
    if (has_default && value.is_undefined()) value = otherwise;
  }
  return value;
}

Result<Value> sort_key(Runtime& rt, const Value& v, bool case_sensitive) {
  if (case_sensitive || !v.is_string()) return v;
  const FilterFn lower = find_filter("lower");
  return lower(rt, v, {});
}

Status charge_comparison(Runtime& rt, const Value& a, const Value& b) {
  return rt.charge(1 + std::min(extent_of(a).weight, extent_of(b).weight) / 4);
}

Result<std::vector<size_t>> sorted_order(Runtime& rt, std::span<const Value> keys, bool reverse) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  OCTAVO_TRY(MergeSort(rt, keys, reverse).sort(order));
  return order;
}

std::span<const Named<FilterFn>> select_filters() {
  return kSelectFilters;
}

FilterFn find_filter(std::string_view name) {
  for (const auto table :
       {string_filters(), number_filters(), sequence_filters(), select_filters()}) {
    for (const Named<FilterFn>& filter : table) {
      if (filter.name == name) return filter.fn;
    }
  }
  return nullptr;
}

}  // namespace octavo::tokenizer::jinja
