// Attribute paths ("a.b.0"), which many filters take, comparing and sorting.
#pragma once

#include <vector>

#include "tokenizer/jinja/runtime.h"

namespace octavo::tokenizer::jinja {

// What `attribute` names inside an item: a path of keys and numbers, or a single integer.
class AttributePath {
 public:
  // kMissing and None mean the item itself.
  static Result<AttributePath> parse(Runtime& rt, const Value& attribute);
  // `otherwise`, unless kMissing or None, replaces what is undefined on the way.
  Result<Value> get(Runtime& rt, const Value& item, const Value& otherwise = {}) const;

 private:
  std::vector<Value> parts_;
};

// Strings in lower case, unless `case_sensitive`.
Result<Value> sort_key(Runtime& rt, const Value& v, bool case_sensitive);

// For one comparison of `a` and `b`: of equality or of order.
Status charge_comparison(Runtime& rt, const Value& a, const Value& b);

// The order that sorts `keys` stably; an error where two of them have no order.
Result<std::vector<size_t>> sorted_order(Runtime& rt, std::span<const Value> keys, bool reverse);

}  // namespace octavo::tokenizer::jinja
