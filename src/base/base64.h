// Base64 of RFC 4648 with its standard alphabet, as JSON and text files carry bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace octavo {

// The bytes that `text` spells; nullopt where it is not Base64. Padding may be left out, nothing
// else may.
std::optional<std::string> base64_decode(std::string_view text);

// `bytes`, with padding.
std::string base64_encode(std::string_view bytes);

}  // namespace octavo
