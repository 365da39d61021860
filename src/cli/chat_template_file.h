// Chat templates that an operator gives: a file, or the text itself.
#pragma once

#include <string>

#include "octavo/status.h"

namespace octavo::cli {

// The template that a file holds, or the value itself, which has Jinja's braces or a line's end; ""
// stays "". Checked; `where` starts errors about the value.
Result<std::string> read_chat_template(const std::string& value, const std::string& where);

}  // namespace octavo::cli
