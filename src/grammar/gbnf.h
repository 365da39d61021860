// Grammars as llama.cpp writes them (GBNF): rules `name ::= …` of literals, character classes,
// groups, alternatives and repeats. The rule `root` is the whole text.
#pragma once

#include <string_view>

#include "grammar/builder.h"
#include "octavo/status.h"

namespace octavo::grammar {

// Errors name the line.
Result<RuleId> parse_gbnf(std::string_view text, Builder& builder);

}  // namespace octavo::grammar
