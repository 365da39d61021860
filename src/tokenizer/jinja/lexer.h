// Cuts a template into tokens as Jinja2 does with trim_blocks and lstrip_blocks: one newline after
// a block is dropped, white space before a block at the start of a line too, `-` and `+` override.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::tokenizer::jinja {

enum class TokenKind : uint8_t {
  kEnd,            // of the template
  kData,           // text outside of tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t offset = 0;    // into the source
  std::string_view text;  // as written, in the source; of data: what is left after stripping
  std::string value;      // of strings: unescaped
};

// `source` must be normalised and outlive the tokens.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace octavo::tokenizer::jinja
