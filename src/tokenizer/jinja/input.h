// The caller's JSON as values.
#pragma once

#include <string_view>

#include "base/json.h"
#include "tokenizer/jinja/runtime.h"

namespace octavo::tokenizer::jinja {

// A variable of the template. Strings below the variables that hold a conversation are tainted, but
// for a message's role where it is one of the usual words. The value borrows the JSON's text.
Result<Value> value_of_variable(Runtime& rt, std::string_view name, const Json& json);

// A value that outlives `json`, with all strings tainted or none.
Result<Value> value_of_parsed(Runtime& rt, const Json& json, bool taints);

}  // namespace octavo::tokenizer::jinja
