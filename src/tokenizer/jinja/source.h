// A template's text, and positions in it as people count them.
#pragma once

#include <string>
#include <string_view>

namespace octavo::tokenizer::jinja {

// The template's text with line ends made "\n", one trailing one dropped and invalid UTF-8
// replaced.
std::string normalize_source(std::string_view source);

// "chat template:12:5: message"; columns count characters from 1.
std::string locate_message(std::string_view source, size_t offset, std::string_view message);

}  // namespace octavo::tokenizer::jinja
