// The objects that a render makes as it goes: activations, macros and loops.
#pragma once

#include <span>
#include <string>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/value.h"

namespace octavo::tokenizer::jinja {

// The variables of one call of a function; kMissing where one is unset. Macros keep the activation
// around their definition, so it lives as long as the render.
struct Activation {
  Activation* outer = nullptr;
  std::span<Value> slots;

  Value& at(VariableRef ref) {
    Activation* a = this;
    for (uint32_t i = 0; i < ref.hops; ++i) a = a->outer;
    return a->slots[ref.slot];
  }
};

struct Macro {
  const FunctionInfo* function;
  Activation* defined_in;
};

inline std::string macro_name_repr(const Macro& macro) {
  if (macro.function->name == nullptr) return "anonymous";
  return "'" + std::string(macro.function->name->text) + "'";
}

// A `for` under way. It looks ahead by at most one item, and only where the template asks for it,
// as the loop's test may depend on what its body does.
class Loop {
 public:
  const ForStmt* statement = nullptr;
  Activation* activation = nullptr;
  std::span<const Value> items;
  size_t next_item = 0;   // the first not looked at
  bool filtered = false;  // `items` have still to pass the statement's test
  int64_t length = -1;    // -1: not counted yet
  int64_t index0 = -1;
  int64_t depth0 = 0;
  Value previous;
  Value current;
  Value next;  // kMissing where it has not been looked at
  Value last_changed;
};

}  // namespace octavo::tokenizer::jinja
