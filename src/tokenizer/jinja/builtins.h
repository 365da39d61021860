// What templates can use without defining it: filters, tests, methods of values and functions. Each
// group is one table; a name that is not in it does not exist.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "octavo/status.h"
#include "tokenizer/jinja/value.h"

namespace octavo::tokenizer::jinja {

class Runtime;

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<const Str*, Value>> keyword;
};

using FilterFn = Result<Value> (*)(Runtime& rt, const Value& input, const CallArgs& args);
using TestFn = Result<bool> (*)(Runtime& rt, const Value& input, const CallArgs& args);
using MethodFn = Result<Value> (*)(Runtime& rt, const Value& self, const CallArgs& args);
using FunctionFn = Result<Value> (*)(Runtime& rt, const CallArgs& args);

struct Function {
  std::string_view name;
  FunctionFn fn;
};

// nullptr where there is none.
FilterFn find_filter(std::string_view name);
TestFn find_test(std::string_view name);
const Function* find_function(std::string_view name);

// The parts of those tables, one a file.
template <typename Fn>
struct Named {
  std::string_view name;
  Fn fn;
};
std::span<const Named<FilterFn>> string_filters();
std::span<const Named<FilterFn>> number_filters();
std::span<const Named<FilterFn>> sequence_filters();
std::span<const Named<FilterFn>> select_filters();
Result<Value> filter_tojson(Runtime& rt, const Value& input, const CallArgs& args);
Result<Value> filter_from_json(Runtime& rt, const Value& input, const CallArgs& args);

// Attributes that are methods. `changes`: it would change the value, which the sandbox forbids.
struct MethodEntry {
  std::string_view name;
  MethodFn fn;  // nullptr: Python has it, templates here cannot call it
  bool changes = false;
};
const MethodEntry* find_string_method(std::string_view name);
const MethodEntry* find_container_method(const Value& v, std::string_view name);

struct Method {
  Value self;
  const MethodEntry* entry;
};

// Sorts arguments to the parameters `names` as Python does: the first `required` must be given, the
// others are kMissing where they are not. A name of "" can only be given by position.
Status bind_arguments(const CallArgs& args, std::span<const std::string_view> names,
                      size_t required, std::span<Value> bound);

template <size_t N>
Result<std::array<Value, N>> bind(const CallArgs& args, const std::string_view (&names)[N],
                                  size_t required) {
  std::array<Value, N> bound;
  Status status = bind_arguments(args, names, required, bound);
  if (!status.ok()) return status;
  return bound;
}

}  // namespace octavo::tokenizer::jinja
