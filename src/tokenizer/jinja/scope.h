// Decides at parse time which variable each name means, by Jinja2's rules: a name that a scope
// assigns is a variable of that scope (starting as a copy of the outer one), `if` opens no scope,
// loops, macros and blocks do, and macros see the variables around their definition.
#pragma once

#include <string_view>

#include "octavo/status.h"
#include "tokenizer/jinja/ast.h"

namespace octavo::tokenizer::jinja {

struct RootScope {
  Scope scope;
  uint32_t num_slots = 0;
};

// Also refuses filters and tests that do not exist, where Jinja2 does so before rendering.
Result<RootScope> resolve_names(Body& body, std::string_view source);

}  // namespace octavo::tokenizer::jinja
