// JsonText: the pieces that JSON texts are made of, as expressions: white space, strings, numbers,
// any value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grammar/builder.h"

namespace octavo::grammar {

class JsonText {
 public:
  explicit JsonText(Builder& builder);

  // What may stand between two tokens: nothing, a space, or a line's end and an indent. More would
  // let a model fill its answer with spaces.
  ExprId space() { return builder_.call(space_); }

  // Characters of a set within a string, escaped where JSON wants it.
  ExprId chars(const CharSet& set);

  // A string of `min` to `max` characters.
  ExprId string(uint32_t min, uint32_t max);
  ExprId quoted(ExprId content);

  // A string that is none of `names`. Characters that could be escaped stand as themselves, so that
  // no name has another spelling.
  ExprId string_except(const std::vector<std::string>& names);

  // Up to 18 digits before the point and after it, and two of an exponent.
  ExprId number();
  ExprId integer();
  ExprId integer_between(std::optional<int64_t> min, std::optional<int64_t> max);  // min <= max
  ExprId number_between(std::optional<int64_t> min, std::optional<int64_t> max);

  ExprId any_value() { return builder_.call(value_); }
  ExprId any_object() { return builder_.call(object_); }

  // "[", items with commas between, "]"; the same of members.
  ExprId array(ExprId item, uint32_t min, uint32_t max);
  ExprId comma();
  ExprId member(ExprId key, ExprId value);

 private:
  void define_values();
  ExprId digits(uint32_t min, uint32_t max);
  ExprId fraction();
  ExprId natural_between(uint64_t min, uint64_t max);
  ExprId same_length(const std::string& min, const std::string& max);
  ExprId from_digits(const std::string& bound, bool upwards);

  Builder& builder_;
  RuleId space_;
  RuleId char_;
  RuleId value_;
  RuleId object_;
};

}  // namespace octavo::grammar
