// The alphabet of byte-level vocabularies: GPT-2 writes every byte as one printable character
// (space is Ġ), so that a token's spelling is text whatever its bytes are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace octavo::tokenizer {

// The bytes that `spelling` stands for; nullopt where it has a character outside the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace octavo::tokenizer
