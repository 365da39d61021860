// Case mapping and character classes as Python's str has them.
#pragma once

#include <string>

namespace octavo::tokenizer {

bool unicode_is_space(char32_t c);      // str.isspace, and \s of a regular expression
bool unicode_is_alpha(char32_t c);      // categories L*
bool unicode_is_decimal(char32_t c);    // category Nd
bool unicode_is_numeric(char32_t c);    // categories N*
bool unicode_is_cased(char32_t c);      // Lu, Ll, Lt
bool unicode_is_upper(char32_t c);      // Lu
bool unicode_is_lower(char32_t c);      // Ll
bool unicode_is_word(char32_t c);       // \w: letters, numbers and the underscore
bool unicode_is_printable(char32_t c);  // str.isprintable

// Appends the full mapping, which may be several characters ("ß" becomes "SS").
void append_upper(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);
// `final_sigma`: the character ends a word, which matters for the Greek capital sigma alone.
void append_lower(std::string& out, char32_t c, bool final_sigma);

}  // namespace octavo::tokenizer
