// Values as text: Python's str() and repr(). Strings inside of containers keep their taint.
#pragma once

#include <string>

#include "tokenizer/jinja/value.h"

namespace octavo::tokenizer::jinja {

void append_str(TextBuilder& out, const Value& v);
void append_repr(TextBuilder& out, const Value& v);
std::string repr_text(const Value& v);

// Python's repr of a float: the shortest digits that give it back, "1.0", "1e+16", "inf".
std::string float_repr(double d);

}  // namespace octavo::tokenizer::jinja
