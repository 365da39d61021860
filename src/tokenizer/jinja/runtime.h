// Runtime: what built-in functions need of a render: memory, limits, and the operations of Python
// that look into values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "octavo/status.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/heap.h"
#include "tokenizer/jinja/value.h"

namespace octavo::tokenizer::jinja {

// One step is the evaluation of a node, an element walked over, kBytesPerStep of text copied or
// searched, or kCharsPerStep looked at one by one; ten million take about a second.
inline constexpr int64_t kMaxSteps = 10'000'000;
inline constexpr size_t kBytesPerStep = 256;
inline constexpr size_t kCharsPerStep = 16;
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;
inline constexpr size_t kMaxHeapBytes = size_t{256} << 20;

class Runtime {
 public:
  explicit Runtime(int64_t now_s) : now_s_(now_s) {}
  virtual ~Runtime() = default;

  Heap& heap() { return heap_; }
  int64_t now_s() const { return now_s_; }

  Status charge(int64_t steps);
  // For copying or searching `bytes` of text; more than kMaxTextBytes is an error.
  Status charge_text(size_t bytes);
  // For looking at each character.
  Status charge_chars(size_t bytes) { return charge(static_cast<int64_t>(bytes / kCharsPerStep)); }
  static Status check_text(size_t bytes);
  // For a walk over all of a value.
  Status charge_walk(const Value& v);

  Result<Value> make_text(const TextBuilder& text);
  Result<Value> make_text(std::string_view text);
  Result<Value> make_dict(const Dict* dict);

  // Python's str(v).
  Result<const Str*> to_text(const Value& v);
  // The elements of anything that can be iterated over; consumes iterators.
  Result<std::span<const Value>> iterate(const Value& v);
  Result<int64_t> length(const Value& v);
  Result<bool> contains(const Value& container, const Value& element);

  // `object[key]` and `object.name` with Jinja2's fallbacks; undefined where there is nothing.
  Result<Value> get_item(const Value& object, const Value& key);
  Result<Value> get_attribute(const Value& object, const Str& name);
  Result<Value> slice(const Value& object, const Value& start, const Value& stop,
                      const Value& step);

  Result<Value> unary(bool negate, const Value& operand);
  Result<Value> add(const Value& a, const Value& b);
  Result<Value> subtract(const Value& a, const Value& b);
  Result<Value> multiply(const Value& a, const Value& b);
  Result<Value> divide(const Value& a, const Value& b);
  Result<Value> floor_divide(const Value& a, const Value& b);
  Result<Value> modulo(const Value& a, const Value& b);
  Result<Value> power(const Value& a, const Value& b);

  // Errors get the position of the node that failed, once; the template's own get none.
  void keep_error_as_is() { error_is_final_ = true; }
  bool error_is_final() const { return error_is_final_; }

  // An attribute of a `loop`, which may have to look ahead. kMissing: there is no such one.
  virtual Result<Value> loop_attribute(Loop& loop, std::string_view name) = 0;
  // For the recursive call of a loop.
  virtual Result<Value> call_loop(Loop& loop, const CallArgs& args) = 0;

 private:
  // kMissing where the object has no such attribute.
  Result<Value> find_attribute(const Value& object, const Str& name);
  Result<Value> find_item(const Value& object, const Value& key);
  Result<Value> repeat(const Value& sequence, const Value& count);
  Result<Value> slice_range(const Sequence& range, int64_t start, int64_t step, int64_t count);

  Heap heap_;
  int64_t now_s_;
  int64_t steps_ = kMaxSteps;
  bool error_is_final_ = false;
};

// Argument conversions; `what` starts the message.
Result<int64_t> to_index(const Value& v, std::string_view what);
Result<const Str*> to_string_argument(const Value& v, std::string_view what);
// HTML escaping, and the other operand of a Markup string's `+`.
Result<const Str*> escape_markup(Runtime& rt, const Value& v);
// `format % values`.
Result<Value> format_percent(Runtime& rt, const Str& format, const Value& values);
// `format.format(...)`.
Result<Value> format_braces(Runtime& rt, const Str& format, const CallArgs& args);

}  // namespace octavo::tokenizer::jinja
