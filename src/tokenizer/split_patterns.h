// The patterns by which byte-level vocabularies cut text into pieces before merging, as
// hand-written matchers: each looks at every character a bounded number of times, so that no text
// can make them slow, and none recurses. A piece never depends on anything but the text handed in.
#pragma once

#include <cstddef>
#include <string_view>

#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

// The leftmost match at or after `from`; empty and at text.size() where there is none.
using FindMatch = TextSpan (*)(std::string_view text, size_t from);

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
TextSpan find_gpt2(std::string_view text, size_t from);

// The matcher of this pattern.
inline constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
TextSpan find_llama3(std::string_view text, size_t from);

// The same with \p{N} in place of \p{N}{1,3}.
TextSpan find_qwen2(std::string_view text, size_t from);

// Of gpt-4o and Llama 4: words start with capitals and go on in lower case. There is no matcher.
inline constexpr const char* kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TextSpan find_number(std::string_view text, size_t from);              // \p{N}
TextSpan find_numbers(std::string_view text, size_t from);             // \p{N}+
TextSpan find_three_digits(std::string_view text, size_t from);        // [0-9][0-9][0-9]
TextSpan find_punctuation(std::string_view text, size_t from);         // [\p{P}\$\+<=>\^~\|]+
TextSpan find_mark(std::string_view text, size_t from);                // \p{P}, ASCII's symbols
TextSpan find_space(std::string_view text, size_t from);               // \s
TextSpan find_newline(std::string_view text, size_t from);             // [\r\n]
TextSpan find_spaced_letters(std::string_view text, size_t from);      // \s?\p{L}+
TextSpan find_spaced_punctuation(std::string_view text, size_t from);  // \s?\p{P}+
TextSpan find_cjk(std::string_view text, size_t from);                 // [一-龥ࠀ-一가-퟿]+

}  // namespace octavo::tokenizer
