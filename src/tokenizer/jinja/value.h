// Values of a template: Python's, as far as templates can make them. A Value is two words and
// trivially copied; what it points to lives in a Heap and is never freed before the render ends.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "octavo/status.h"
#include "tokenizer/jinja/text.h"

namespace octavo::tokenizer::jinja {

enum class Kind : uint8_t {
  kMissing,  // no value at all: an unset variable, an argument not given
  kUndefined,
  kNone,
  kBool,
  kInt,
  kBigInt,  // an integer beyond 64 bits, as decimal text; it can be shown and compared for equality
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kMacro,
  kMethod,
  kFunction,
  kLoop,
  kCycler,
  kJoiner,
};

class Dict;
struct Sequence;
struct Undefined;
struct Namespace;
struct Macro;
struct Method;
struct Function;
class Loop;
struct Cycler;
struct Joiner;

class Value {
 public:
  Value() = default;
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b) {
    Value v(Kind::kBool);
    v.int_ = b;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Kind::kInt);
    v.int_ = i;
    return v;
  }
  static Value real(double d) {
    Value v(Kind::kFloat);
    v.float_ = d;
    return v;
  }
  static Value big_int(const Str* digits) { return {Kind::kBigInt, digits}; }
  static Value of(const Str* s) { return {Kind::kString, s}; }
  static Value of(const Undefined* u) { return {Kind::kUndefined, u}; }
  static Value of(const Dict* d) { return {Kind::kDict, d}; }
  static Value of(Sequence* s) { return {Kind::kSequence, s}; }
  static Value of(Namespace* n) { return {Kind::kNamespace, n}; }
  static Value of(const Macro* m) { return {Kind::kMacro, m}; }
  static Value of(const Method* m) { return {Kind::kMethod, m}; }
  static Value of(const Function* f) { return {Kind::kFunction, f}; }
  static Value of(Loop* l) { return {Kind::kLoop, l}; }
  static Value of(Cycler* c) { return {Kind::kCycler, c}; }
  static Value of(Joiner* j) { return {Kind::kJoiner, j}; }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || is(Kind::kFloat) || is(Kind::kBigInt); }

  // Each is valid for its own kind only; integer() for booleans too.
  bool boolean() const { return int_ != 0; }
  int64_t integer() const { return int_; }
  double real() const { return float_; }
  const Str& str() const { return *static_cast<const Str*>(pointer_); }
  std::string_view text() const { return str().text; }
  const Undefined& undefined() const { return *static_cast<const Undefined*>(pointer_); }
  const Dict& dict() const { return *static_cast<const Dict*>(pointer_); }
  Sequence& sequence() const { return *static_cast<Sequence*>(mutable_pointer()); }
  Namespace& name_space() const { return *static_cast<Namespace*>(mutable_pointer()); }
  const Macro& macro() const { return *static_cast<const Macro*>(pointer_); }
  const Method& method() const { return *static_cast<const Method*>(pointer_); }
  const Function& function() const { return *static_cast<const Function*>(pointer_); }
  Loop& loop() const { return *static_cast<Loop*>(mutable_pointer()); }
  Cycler& cycler() const { return *static_cast<Cycler*>(mutable_pointer()); }
  Joiner& joiner() const { return *static_cast<Joiner*>(mutable_pointer()); }
  const void* identity() const { return pointer_; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, const void* pointer) : kind_(kind), pointer_(pointer) {}
  void* mutable_pointer() const { return const_cast<void*>(pointer_); }

  Kind kind_ = Kind::kMissing;
  union {
    int64_t int_ = 0;
    double float_;
    const void* pointer_;
  };
};

// Why there is no value; its message is made only where an operation refuses it.
struct Undefined {
  std::string_view hint;   // the whole message, or
  std::string_view owner;  // the type name of what was asked for `key`, or
  Value key;               // alone: a variable's name
  std::string message() const;
};

enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kGroup,  // of groupby: a tuple with the attributes grouper and list
  kRange,
  kDictKeys,
  kDictValues,
  kDictItems,
  kIterator,  // can be walked once: what filters such as map and select give
};

// How large a value is when written out. Elements may be shared, so that a few steps could make a
// value of 2^60 parts or a million levels: with limits on both, any walk over a value is bounded.
struct Extent {
  static constexpr uint32_t kMaxDepth = 200;
  static constexpr uint32_t kMaxWeight = 1 << 22;
  static constexpr uint32_t kWeightBytes = 16;  // of text that weigh as much as one value

  uint32_t depth = 1;   // levels of containers
  uint32_t weight = 1;  // values within, this one included
  void add(const Value& element);
  Status check() const;
};

// Every container's elements are fixed when it is made, as the sandbox forbids changing them.
struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  Extent extent;
  std::span<const Value> items;
  size_t position = 0;  // of an iterator: how many are consumed
  int64_t start = 0;    // of a range
  int64_t step = 1;     // of a range
  int64_t stop = 0;     // of a range
  bool is_tuple() const { return kind == SequenceKind::kTuple || kind == SequenceKind::kGroup; }
  bool is_dict_view() const {
    return kind >= SequenceKind::kDictKeys && kind <= SequenceKind::kDictItems;
  }
};

// Keys in the order of insertion; look-up is hashed where there are many.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };
  explicit Dict(std::pmr::memory_resource* memory) : entries_(memory), table_(memory) {}

  std::span<const Entry> entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  const Extent& extent() const { return extent_; }

  // nullptr where there is no such key; `key` must be hashable.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Adds or replaces; `key` must be hashable.
  void set(const Value& key, const Value& value);

 private:
  size_t find_index(const Value& key, size_t hash) const;
  void rebuild_table();

  std::pmr::vector<Entry> entries_;
  std::pmr::vector<uint32_t> table_;  // open addressing: entry index + 1; empty for small ones
  Extent extent_;
};

struct Namespace {
  explicit Namespace(std::pmr::memory_resource* memory) : attributes(memory) {}
  Dict attributes;
};

struct Cycler {
  std::span<const Value> items;
  size_t position = 0;
};

struct Joiner {
  Value separator;
  bool used = false;
};

// Python's name of the type, for messages: "str", "dict", "NoneType".
std::string_view type_name(const Value& v);
bool truthy(const Value& v);
Extent extent_of(const Value& v);

bool equals(const Value& a, const Value& b);
bool hashable(const Value& v);
size_t hash_value(const Value& v);
// Python's `is`.
bool identical(const Value& a, const Value& b);

// -1, 0 or 1; 2 where a number is NaN. An error where Python has no order between the two.
Result<int> compare(const Value& a, const Value& b);

// As doubles; of integers with rounding.
double to_double(const Value& number);

}  // namespace octavo::tokenizer::jinja
