// Which modules an entry of a quantization_config means: lists of names, patterns behind "re:".
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::quant {

// Whether `name` is one of the dotted name's parts in a row: "mlp.gate" of "layers.0.mlp.gate" and
// of "mlp.gate.linear", but not of "mlp.gate_proj".
bool names_module(std::string_view name, std::string_view module);

// The same for any of a list.
bool name_any_module(std::span<const std::string> names, std::string_view module);

// Whether the start of `text` matches `pattern` as Python's re.match does, for what such lists
// hold: literals, '.', \d \w \s and escaped signs, [sets], (groups) with '|', '*', '+', '?', '^'
// and '$'. An error for any other syntax, and where trying takes too long.
Result<bool> matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace octavo::quant
