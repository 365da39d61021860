// Filters on sequences and mappings.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/objects.h"
#include "tokenizer/jinja/select.h"
#include "tokenizer/jinja/strings.h"

namespace octavo::tokenizer::jinja {
namespace {

using Args = const CallArgs&;

Result<Value> filter_length(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return Value::integer(OCTAVO_TRY(rt.length(v)));
}

Result<Value> filter_list(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  return rt.heap().sequence(SequenceKind::kList, OCTAVO_TRY(rt.iterate(v)));
}

Result<Value> filter_items(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  std::vector<Value> pairs;
  if (!v.is_undefined()) {
    if (!v.is_dict()) return invalid_argument("only a mapping has items");
    OCTAVO_TRY(rt.charge(static_cast<int64_t>(v.dict().size())));
    for (const Dict::Entry& entry : v.dict().entries()) {
      const Value pair[] = {entry.key, entry.value};
      pairs.push_back(OCTAVO_TRY(rt.heap().tuple(pair)));
    }
  }
  return rt.heap().iterator(pairs);
}

Result<Value> filter_first(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  if (v.is(Kind::kSequence) && v.sequence().kind == SequenceKind::kIterator) {
    Sequence& s = v.sequence();
    if (s.position < s.items.size()) return s.items[s.position++];
  }
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  return items.empty() ? rt.heap().undefined("there is no first item") : items.front();
}

bool reversible(const Value& v) {
  if (v.is(Kind::kSequence)) return v.sequence().kind != SequenceKind::kIterator;
  return v.is_string() || v.is_dict() || v.is_undefined();
}

Result<Value> filter_last(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  if (!reversible(v)) return invalid_argument(format("'{}' has no last item", type_name(v)));
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  return items.empty() ? rt.heap().undefined("there is no last item") : items.back();
}

Result<Value> filter_reverse(Runtime& rt, const Value& v, Args args) {
  OCTAVO_TRY(bind_arguments(args, {}, 0, {}));
  if (v.is_string()) {
    return rt.slice(v, Value::none(), Value::none(), Value::integer(-1));
  }
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  const std::vector<Value> reversed(items.rbegin(), items.rend());
  return reversible(v) ? rt.heap().iterator(reversed) : rt.heap().list(reversed);
}

Result<Value> filter_join(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"d", "attribute"}, 0));
  const Str* separator =
      bound[0].missing() ? rt.heap().borrow({}) : OCTAVO_TRY(rt.to_text(bound[0]));
  const AttributePath path = OCTAVO_TRY(AttributePath::parse(rt, bound[1]));
  std::vector<Value> items;
  for (const Value& item : OCTAVO_TRY(rt.iterate(v))) {
    items.push_back(OCTAVO_TRY(path.get(rt, item)));
  }
  return join(rt, *separator, items);
}

// Keys of the items by attribute, folded to lower case where the filter asks for it.
Result<std::vector<Value>> keys_of(Runtime& rt, std::span<const Value> items,
                                   const Value& attribute, bool case_sensitive,
                                   const Value& otherwise = {}) {
  const AttributePath path = OCTAVO_TRY(AttributePath::parse(rt, attribute));
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value key = OCTAVO_TRY(path.get(rt, item, otherwise));
    keys.push_back(OCTAVO_TRY(sort_key(rt, key, case_sensitive)));
  }
  return keys;
}

Result<Value> permuted(Runtime& rt, std::span<const Value> items,
                       const std::vector<size_t>& order) {
  std::vector<Value> out;
  out.reserve(order.size());
  for (const size_t i : order) out.push_back(items[i]);
  return rt.heap().list(out);
}

// Python's sorted() takes integers here, not any value that is true.
Result<bool> reverse_argument(const Value& v) {
  if (v.missing()) return false;
  return OCTAVO_TRY(to_index(v, "'reverse'")) != 0;
}

Result<Value> filter_sort(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"reverse", "case_sensitive", "attribute"}, 0));
  const bool reverse = OCTAVO_TRY(reverse_argument(bound[0]));
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  const bool case_sensitive = truthy(bound[1]);
  // "a,b" sorts by several attributes: the keys are lists, as in Jinja2 even for one.
  std::vector<Value> attributes = {bound[2]};
  if (bound[2].is_string()) {
    attributes.clear();
    const Str& s = bound[2].str();
    for (size_t begin = 0; begin <= s.text.size();) {
      const size_t end = std::min(s.text.find(',', begin), s.text.size());
      attributes.push_back(Value::of(rt.heap().substr(s, begin, end)));
      begin = end + 1;
    }
  }
  std::vector<std::vector<Value>> columns;
  columns.reserve(attributes.size());
  for (const Value& attribute : attributes) {
    columns.push_back(OCTAVO_TRY(keys_of(rt, items, attribute, case_sensitive)));
  }
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<Value> key;
    key.reserve(columns.size());
    for (const std::vector<Value>& column : columns) key.push_back(column[i]);
    keys.push_back(OCTAVO_TRY(rt.heap().list(key)));
  }
  return permuted(rt, items, OCTAVO_TRY(sorted_order(rt, keys, reverse)));
}

Result<Value> filter_dictsort(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"case_sensitive", "by", "reverse"}, 0));
  const std::string_view by =
      bound[1].missing() ? "key" : OCTAVO_TRY(to_string_argument(bound[1], "'by'"))->text;
  if (by != "key" && by != "value") return invalid_argument("a dict is sorted by key or value");
  const bool reverse = OCTAVO_TRY(reverse_argument(bound[2]));
  if (v.is_undefined()) return invalid_argument(v.undefined().message());
  if (!v.is_dict()) return invalid_argument("only a mapping can be sorted by its keys");
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const Dict::Entry& entry : v.dict().entries()) {
    const Value pair[] = {entry.key, entry.value};
    pairs.push_back(OCTAVO_TRY(rt.heap().tuple(pair)));
    const Value& key = by == "key" ? entry.key : entry.value;
    keys.push_back(OCTAVO_TRY(sort_key(rt, key, truthy(bound[0]))));
  }
  return permuted(rt, pairs, OCTAVO_TRY(sorted_order(rt, keys, reverse)));
}

Result<Value> filter_unique(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"case_sensitive", "attribute"}, 0));
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  const std::vector<Value> keys = OCTAVO_TRY(keys_of(rt, items, bound[1], truthy(bound[0])));
  Dict* seen = rt.heap().dict();
  std::vector<Value> out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!hashable(keys[i])) {
      return invalid_argument(format("'{}' is not hashable", type_name(keys[i])));
    }
    if (seen->find(keys[i]) != nullptr) continue;
    seen->set(keys[i], Value::none());
    out.push_back(items[i]);
  }
  return rt.heap().iterator(out);
}

template <int wanted>  // the order of a better item to the best so far
Result<Value> filter_extreme(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"case_sensitive", "attribute"}, 0));
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  if (items.empty()) return rt.heap().undefined("the sequence was empty");
  const std::vector<Value> keys = OCTAVO_TRY(keys_of(rt, items, bound[1], truthy(bound[0])));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    OCTAVO_TRY(charge_comparison(rt, keys[i], keys[best]));
    if (OCTAVO_TRY(compare(keys[i], keys[best])) == wanted) best = i;
  }
  return items[best];
}

Result<Value> filter_sum(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"attribute", "start"}, 0));
  const AttributePath path = OCTAVO_TRY(AttributePath::parse(rt, bound[0]));
  Value sum = bound[1].missing() ? Value::integer(0) : bound[1];
  if (sum.is_string()) return invalid_argument("strings cannot be summed");
  for (const Value& item : OCTAVO_TRY(rt.iterate(v))) {
    const Value addend = OCTAVO_TRY(path.get(rt, item));
    sum = OCTAVO_TRY(rt.add(sum, addend));
  }
  return sum;
}

Result<Value> filter_batch(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"linecount", "fill_with"}, 1));
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  const int64_t size = OCTAVO_TRY(to_index(bound[0], "a batch's size"));
  std::vector<Value> out;
  std::vector<Value> batch;
  const auto flush = [&]() -> Status {
    out.push_back(OCTAVO_TRY(rt.heap().list(batch)));
    batch.clear();
    return {};
  };
  for (const Value& item : items) {
    if (static_cast<int64_t>(batch.size()) == size) OCTAVO_TRY(flush());
    batch.push_back(item);
  }
  if (batch.empty()) return rt.heap().iterator(out);
  if (const auto filled = static_cast<int64_t>(batch.size());
      !bound[1].missing() && !bound[1].is_none() && size > filled) {
    OCTAVO_TRY(rt.charge(size - filled));
    batch.insert(batch.end(), static_cast<size_t>(size - filled), bound[1]);
  }
  OCTAVO_TRY(flush());
  return rt.heap().iterator(out);
}

Result<Value> filter_slice(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<2>(args, {"slices", "fill_with"}, 1));
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  const int64_t slices = OCTAVO_TRY(to_index(bound[0], "the number of slices"));
  if (slices == 0) return invalid_argument("division by zero");
  OCTAVO_TRY(rt.charge(std::max<int64_t>(0, slices)));
  std::vector<Value> out;
  size_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const size_t each = items.size() / static_cast<size_t>(slices);
    const bool longer = i < static_cast<int64_t>(items.size()) % slices;
    const std::span<const Value> part = items.subspan(begin, each + (longer ? 1 : 0));
    begin += part.size();
    std::vector<Value> slice(part.begin(), part.end());
    if (!longer && !bound[1].missing() && !bound[1].is_none()) slice.push_back(bound[1]);
    out.push_back(OCTAVO_TRY(rt.heap().list(slice)));
  }
  return rt.heap().iterator(out);
}

Result<Value> filter_groupby(Runtime& rt, const Value& v, Args args) {
  const auto bound = OCTAVO_TRY(bind<3>(args, {"attribute", "default", "case_sensitive"}, 1));
  const std::span<const Value> items = OCTAVO_TRY(rt.iterate(v));
  const std::vector<Value> keys =
      OCTAVO_TRY(keys_of(rt, items, bound[0], truthy(bound[2]), bound[1]));
  const std::vector<size_t> order = OCTAVO_TRY(sorted_order(rt, keys, false));
  const AttributePath path = OCTAVO_TRY(AttributePath::parse(rt, bound[0]));
  std::vector<Value> groups;
  for (size_t i = 0; i < order.size();) {
    std::vector<Value> members;
    const size_t first = order[i];
    for (; i < order.size() && equals(keys[order[i]], keys[first]); ++i) {
      OCTAVO_TRY(rt.charge(extent_of(keys[first]).weight));
      members.push_back(items[order[i]]);
    }
    if (members.empty()) members.push_back(items[order[i++]]);  // NaN, not even its own equal
    const Value key = OCTAVO_TRY(path.get(rt, members[0], bound[1]));
    const Value list = OCTAVO_TRY(rt.heap().list(members));
    const Value group[] = {key, list};
    groups.push_back(OCTAVO_TRY(rt.heap().sequence(SequenceKind::kGroup, group)));
  }
  return rt.heap().list(groups);
}

constexpr Named<FilterFn> kSequenceFilters[] = {
    {"length", filter_length},     {"count", filter_length},    {"list", filter_list},
    {"items", filter_items},       {"first", filter_first},     {"last", filter_last},
    {"reverse", filter_reverse},   {"join", filter_join},       {"sort", filter_sort},
    {"dictsort", filter_dictsort}, {"unique", filter_unique},   {"min", filter_extreme<-1>},
    {"max", filter_extreme<1>},    {"sum", filter_sum},         {"batch", filter_batch},
    {"slice", filter_slice},       {"groupby", filter_groupby},
};

}  // namespace

std::span<const Named<FilterFn>> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace octavo::tokenizer::jinja
