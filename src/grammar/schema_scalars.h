// The part of a JSON schema that is about strings, numbers and counts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/json.h"
#include "grammar/json_text.h"
#include "octavo/status.h"

namespace octavo::grammar {

// The keywords `least` and `most` of a schema, 0 and kUnlimited where they are not there.
Result<std::pair<uint32_t, uint32_t>> read_counts(const JsonObject& schema, const char* least,
                                                  const char* most, const std::string& path);

Result<ExprId> compile_string(const JsonObject& schema, const std::string& path, Builder& builder,
                              JsonText& text);

Result<ExprId> compile_number(const JsonObject& schema, const std::string& path, bool integer,
                              JsonText& text);

}  // namespace octavo::grammar
