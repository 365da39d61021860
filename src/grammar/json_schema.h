// JSON schemas as grammars. Whatever the grammar would not hold an answer to is an error that names
// the place in the schema and the keyword.
#pragma once

#include "base/json.h"
#include "grammar/builder.h"
#include "octavo/status.h"

namespace octavo::grammar {

// The rule for values that match `schema`.
Result<RuleId> compile_json_schema(const Json& schema, Builder& builder);

}  // namespace octavo::grammar
