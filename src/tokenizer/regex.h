// Regex: a pattern of a tokenizer.json, compiled. Those are written for Oniguruma in its Ruby
// syntax; what means something else here is translated or refused, never guessed. The only wrapper
// of PCRE2.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "octavo/status.h"
#include "octavo/tokenizer.h"

namespace octavo::tokenizer {

class Regex {
 public:
  // The error says what in the pattern is wrong or not supported.
  static Result<Regex> compile(std::string_view pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // The leftmost match at or after `from`, which may be empty; nullopt where there is none. `text`
  // must be UTF-8. kResourceExhausted where the pattern needs too many steps.
  Result<std::optional<TextSpan>> find(std::string_view text, size_t from) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The pattern in PCRE2's syntax. Exposed for the tests.
Result<std::string> translate_pattern(std::string_view pattern);

}  // namespace octavo::tokenizer
