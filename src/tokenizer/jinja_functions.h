// The functions that every template can call.
#pragma once

#include "tokenizer/jinja_builtins.h"

namespace octavo::tokenizer::jinja {

// Fails with the template's own message.
Result<Value> raise_exception(Runtime& rt, const CallArgs& args);

}  // namespace octavo::tokenizer::jinja
