// Operations on strings that filters and methods share. All keep taint; those that cut or map
// keep Markup.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/jinja/runtime.h"

namespace octavo::tokenizer::jinja {

enum class CaseMapping { kUpper, kLower, kCapitalize, kTitle, kSwap };
Result<Value> map_case(Runtime& rt, const Str& s, CaseMapping mapping);

Result<Value> strip(Runtime& rt, const Str& s, Strip side, const Value& chars);

// At most `count` times where that is not negative.
Result<Value> replace(Runtime& rt, const Str& s, const Str& from, const Str& to, int64_t count);

Result<Value> join(Runtime& rt, const Str& separator, std::span<const Value> items);

// Lines without their ends, as str.splitlines; with them where `keep_ends`.
std::vector<TextSpan> split_lines(std::string_view text, bool keep_ends);

// A Markup string with this one's text, or the string itself.
Value with_markup(Runtime& rt, const Value& text, bool markup);

}  // namespace octavo::tokenizer::jinja
