#include "tokenizer/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/heap.h"
#include "tokenizer/jinja/repr.h"

namespace octavo::tokenizer::jinja {
namespace {

constexpr size_t kSmallDict = 8;
constexpr size_t kNotFound = SIZE_MAX;

// A dict looks at the lowest bits, which multiples of a power of two have in common.
size_t hash_integer(int64_t i) {
  const uint64_t hash = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

int order(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : a > b ? 1 : 0;
}

// Exact: a double is compared with the integer itself, not with the integer rounded.
int order(int64_t a, double b) {
  if (std::isnan(b)) return 2;
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  return order(0.0, b - static_cast<double>(whole));
}

int order_big(std::string_view a, std::string_view b) {
  const bool a_negative = a[0] == '-';
  if (a_negative != (b[0] == '-')) return a_negative ? -1 : 1;
  const int larger =
      a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : std::clamp(a.compare(b), -1, 1);
  return a_negative ? -larger : larger;
}

int order_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::kBigInt) && b.is(Kind::kBigInt)) return order_big(a.text(), b.text());
  if (a.is(Kind::kBigInt) && !b.is(Kind::kFloat)) return a.text()[0] == '-' ? -1 : 1;
  if (b.is(Kind::kBigInt) && !a.is(Kind::kFloat)) return b.text()[0] == '-' ? 1 : -1;
  if (a.is_integral() && b.is_integral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  if (a.is_integral()) return order(a.integer(), to_double(b));
  if (b.is_integral()) {
    const int reversed = order(b.integer(), to_double(a));
    return reversed == 2 ? 2 : -reversed;
  }
  return order(to_double(a), to_double(b));
}

bool equal_sequences(const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  const bool same_type = a.kind == b.kind || (a.is_tuple() && b.is_tuple());
  if (!same_type || a.kind == SequenceKind::kIterator || a.kind == SequenceKind::kDictValues) {
    return false;
  }
  if (a.is_dict_view()) {  // these are sets
    return a.items.size() == b.items.size() &&
           std::all_of(a.items.begin(), a.items.end(), [&b](const Value& item) {
             return std::any_of(b.items.begin(), b.items.end(),
                                [&item](const Value& other) { return equals(item, other); });
           });
  }
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equals);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&b](const Dict::Entry& entry) {
    const Value* other = b.find(entry.key);
    return other != nullptr && equals(entry.value, *other);
  });
}

Result<int> compare_sequences(const Sequence& a, const Sequence& b) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    if (!equals(a.items[i], b.items[i])) return compare(a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size() ? 1 : 0;
}

std::string_view sequence_type_name(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
    case SequenceKind::kGroup:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kDictKeys:
      return "dict_keys";
    case SequenceKind::kDictValues:
      return "dict_values";
    case SequenceKind::kDictItems:
      return "dict_items";
    case SequenceKind::kIterator:
      return "generator";
  }
  return "";
}

}  // namespace

std::string Undefined::message() const {
  if (!hint.empty()) return std::string(hint);
  const std::string shown = repr_text(key);
  if (owner.empty()) return shown + " is undefined";
  return format("{} has no {} {}", owner == "NoneType" ? "None" : format("'{} object'", owner),
                key.is_string() ? "attribute" : "element", shown);
}

std::string_view type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return v.str().markup ? "Markup" : "str";
    case Kind::kSequence:
      return sequence_type_name(v.sequence().kind);
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kMethod:
      return "method";
    case Kind::kFunction:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "";
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return v.integer() != 0;
    case Kind::kFloat:
      return v.real() != 0;
    case Kind::kString:
      return !v.text().empty();
    case Kind::kSequence:
      return v.sequence().kind == SequenceKind::kIterator || !v.sequence().items.empty();
    case Kind::kDict:
      return v.dict().size() != 0;
    default:
      return true;
  }
}

Extent extent_of(const Value& v) {
  if (v.is(Kind::kSequence)) return v.sequence().extent;
  if (v.is_dict()) return v.dict().extent();
  const size_t text = v.is_string() ? v.text().size() : 0;
  return {0, static_cast<uint32_t>(1 + text / Extent::kWeightBytes)};
}

void Extent::add(const Value& element) {
  const Extent other = extent_of(element);
  depth = std::max(depth, other.depth + 1);
  weight = std::min(weight + other.weight, kMaxWeight + 1);
}

Status Extent::check() const {
  if (depth > kMaxDepth) return invalid_argument("a value is nested too deeply");
  if (weight > kMaxWeight) return invalid_argument("a value is too large");
  return {};
}

double to_double(const Value& number) {
  if (number.is(Kind::kFloat)) return number.real();
  if (number.is(Kind::kBigInt)) return std::strtod(std::string(number.text()).c_str(), nullptr);
  return static_cast<double>(number.integer());
}

bool equals(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.text() == b.text();
    case Kind::kSequence:
      return equal_sequences(a.sequence(), b.sequence());
    case Kind::kDict:
      return equal_dicts(a.dict(), b.dict());
    case Kind::kMethod:
      return false;
    default:
      return a.identity() == b.identity();
  }
}

bool identical(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return a.integer() == b.integer();
    case Kind::kFloat:
      return a.real() == b.real();
    case Kind::kString:
      return a.text() == b.text();
    default:
      return a.identity() == b.identity();
  }
}

bool hashable(const Value& v) {
  if (v.is_dict()) return false;
  if (!v.is(Kind::kSequence)) return true;
  const Sequence& s = v.sequence();
  if (s.is_tuple()) return std::all_of(s.items.begin(), s.items.end(), hashable);
  return s.kind == SequenceKind::kRange || s.kind == SequenceKind::kIterator ||
         s.kind == SequenceKind::kDictValues;
}

size_t hash_value(const Value& v) {
  switch (v.kind()) {
    case Kind::kBool:
    case Kind::kInt:
      return hash_integer(v.integer());
    case Kind::kFloat: {
      const double d = v.real();  // 1.0 and 1 are the same key
      if (d >= -0x1p62 && d <= 0x1p62 && d == std::floor(d)) {
        return hash_integer(static_cast<int64_t>(d));
      }
      return std::hash<double>{}(d);
    }
    case Kind::kString:
    case Kind::kBigInt:
      return std::hash<std::string_view>{}(v.text());
    case Kind::kSequence: {
      if (v.sequence().kind == SequenceKind::kRange) return v.sequence().items.size();
      if (!v.sequence().is_tuple()) return std::hash<const void*>{}(v.identity());
      size_t hash = 0x345678;
      for (const Value& item : v.sequence().items) hash = hash * 1000003 ^ hash_value(item);
      return hash;
    }
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return static_cast<size_t>(v.kind());
    default:
      return std::hash<const void*>{}(v.identity());
  }
}

Result<int> compare(const Value& a, const Value& b) {
  if (a.is_undefined()) return invalid_argument(a.undefined().message());
  if (b.is_undefined()) return invalid_argument(b.undefined().message());
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_string() && b.is_string()) return std::clamp(a.text().compare(b.text()), -1, 1);
  if (a.is(Kind::kSequence) && b.is(Kind::kSequence)) {
    const Sequence& left = a.sequence();
    const Sequence& right = b.sequence();
    const bool lists = left.kind == SequenceKind::kList && right.kind == SequenceKind::kList;
    if (lists || (left.is_tuple() && right.is_tuple())) return compare_sequences(left, right);
  }
  return invalid_argument(format("'{}' and '{}' have no order", type_name(a), type_name(b)));
}

const Value* Dict::find(const Value& key) const {
  const size_t index = find_index(key, hash_value(key));
  return index == kNotFound ? nullptr : &entries_[index].value;
}

const Value* Dict::find(std::string_view key) const {
  const Str str{key, {}};
  return find(Value::of(&str));
}

size_t Dict::find_index(const Value& key, size_t hash) const {
  if (table_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (equals(entries_[i].key, key)) return i;
    }
    return kNotFound;
  }
  const size_t mask = table_.size() - 1;
  for (size_t slot = hash & mask; table_[slot] != 0; slot = (slot + 1) & mask) {
    const size_t index = table_[slot] - 1;
    if (equals(entries_[index].key, key)) return index;
  }
  return kNotFound;
}

void Dict::set(const Value& key, const Value& value) {
  const size_t hash = hash_value(key);
  extent_.add(key);
  extent_.add(value);
  const size_t index = find_index(key, hash);
  if (index != kNotFound) {
    entries_[index].value = value;
    return;
  }
  entries_.push_back({key, value});
  if (entries_.size() <= kSmallDict) return;
  if (entries_.size() * 2 > table_.size()) {
    rebuild_table();
    return;
  }
  const size_t mask = table_.size() - 1;
  size_t slot = hash & mask;
  while (table_[slot] != 0) slot = (slot + 1) & mask;
  table_[slot] = static_cast<uint32_t>(entries_.size());
}

void Dict::rebuild_table() {
  table_.assign(std::max<size_t>(32, table_.size() * 2), 0);
  const size_t mask = table_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t slot = hash_value(entries_[i].key) & mask;
    while (table_[slot] != 0) slot = (slot + 1) & mask;
    table_[slot] = static_cast<uint32_t>(i + 1);
  }
}

const Str* Heap::substr(const Str& s, size_t begin, size_t end) {
  if (begin == 0 && end == s.text.size()) return &s;
  std::vector<TextSpan> spans;
  for (const TextSpan& span : spans_within(s.taint, begin, end)) {
    spans.push_back({std::max(span.begin, begin) - begin, std::min(span.end, end) - begin});
  }
  return make<Str>(s.text.substr(begin, end - begin), copy(std::span<const TextSpan>(spans)),
                   s.markup);
}

Result<Value> Heap::sequence(SequenceKind kind, std::span<const Value> items) {
  Extent extent;
  for (const Value& item : items) extent.add(item);
  OCTAVO_TRY(extent.check());
  return Value::of(make<Sequence>(kind, extent, copy(items)));
}

}  // namespace octavo::tokenizer::jinja
