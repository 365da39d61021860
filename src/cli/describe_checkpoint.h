// What a model file holds, as JSON and as text for people.
#pragma once

#include <string>

#include "base/json.h"
#include "formats/checkpoint.h"

namespace octavo::cli {

// "metadata" gives each key its type and value, of arrays the length and the first elements;
// "types" sums up the tensors by type. Floats have as many digits as their type holds.
JsonObject describe_checkpoint(const formats::Checkpoint& checkpoint);

// The same in lines; long strings are cut and control characters escaped, so that a file cannot
// write to the terminal.
std::string render_description(const JsonObject& description);

}  // namespace octavo::cli
