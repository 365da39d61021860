// JSON: the only wrapper of Boost.JSON. Objects keep their key order and have hashed look-up. The
// typed accessors below turn a missing key or a wrong type into an error that names key and source.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo {

using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

inline std::string_view to_view(const boost::json::string& s) {
  return {s.data(), s.size()};
}

// Parses one JSON document. `source` (a file or field name) starts every error message; nesting
// deeper than 128 is an error, and so is anything after the document.
Result<Json> parse_json(std::string_view text, std::string_view source);

// Compact JSON (indent < 0), or indented by `indent` spaces. Bytes that are not valid UTF-8 become
// U+FFFD, so that the output is always valid JSON; doubles print in their shortest exact form.
std::string dump_json(const Json& value, int indent = -1);

// Field accessors: `object` must be an object holding `key` with a value of that type. Integers
// accept any JSON integer that fits, doubles accept integers too.
Result<int64_t> json_int(const Json& object, std::string_view key, std::string_view source);
Result<double> json_double(const Json& object, std::string_view key, std::string_view source);
Result<bool> json_bool(const Json& object, std::string_view key, std::string_view source);
Result<std::string> json_string(const Json& object, std::string_view key, std::string_view source);
Result<const JsonArray*> json_array(const Json& object, std::string_view key,
                                    std::string_view source);

// The value under `key`, or nullptr where `object` is no object, lacks the key or holds null there.
const Json* json_find(const Json& object, std::string_view key);

}  // namespace octavo
