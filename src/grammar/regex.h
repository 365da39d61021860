// Regular expressions as grammars: classes, \d \w \s, groups, alternatives, counted repeats. The
// whole text must match, so that ^ and $ at its ends say nothing more. What a grammar cannot hold
// (look-around, back references, word boundaries) is an error.
#pragma once

#include <functional>
#include <string_view>

#include "grammar/builder.h"
#include "octavo/status.h"

namespace octavo::grammar {

// How a character of a set is spelled: as itself, or as a JSON string has it.
using SpellChars = std::function<ExprId(const CharSet&)>;

// Errors name the position.
Result<ExprId> parse_regex(std::string_view text, Builder& builder, const SpellChars& spell);

}  // namespace octavo::grammar
