// What must hold of rules before they become an automaton, and which expressions may be empty.
#pragma once

#include <vector>

#include "grammar/builder.h"

namespace octavo::grammar {

// By expression: whether it matches the empty text. Errors are those of Builder::build.
Result<std::vector<char>> check_rules(const std::vector<Expr>& exprs,
                                      const std::vector<Rule>& rules);

}  // namespace octavo::grammar
