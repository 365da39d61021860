#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace octavo::tokenizer {
namespace {

constexpr size_t kMaxPatternBytes = size_t{1} << 16;
// Patterns in use need some hundred steps a match, and as many as a run of spaces is long.
constexpr uint32_t kMatchLimit = 5'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

// \w there takes in marks, connectors and encircled letters, but of numbers without a digit's value
// only those of Latin-1; here it is letters, numbers and the underscore.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE}\x{24B6}-\x{24E9})"
    R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

// Walks over a pattern and writes it in the other syntax.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (pos_ < pattern_.size()) OCTAVO_TRY(step());
    return std::move(out_);
  }

 private:
  char peek(size_t ahead) const {
    return pos_ + ahead < pattern_.size() ? pattern_[pos_ + ahead] : '\0';
  }
  void copy(size_t count) {
    out_ += pattern_.substr(pos_, count);
    pos_ += count;
  }
  Status refuse(std::string_view what) const {
    return unsupported(format("{} at byte {} of the pattern", what, pos_));
  }

  Status step() {
    const char c = peek(0);
    if (c == '\\') return escape();
    if (in_class_) {
      if (c == '&' && peek(1) == '&') return refuse("'&&' in a class");
      if (c == '[' && peek(1) != ':') return refuse("a class in a class");
      if (c == '[') {
        const size_t end = pattern_.find(":]", pos_ + 2);
        if (end == std::string_view::npos) return refuse("'[:' without ':]'");
        copy(end + 2 - pos_);
        return {};
      }
      if (c == ']') in_class_ = false;
    } else if (c == '[') {
      in_class_ = true;
      copy(1);
      if (peek(0) == '^') copy(1);
      if (peek(0) == ']') copy(1);
      return {};
    } else if (c == '(' && peek(1) == '?') {
      return group_option();
    } else if (c == '(' && peek(1) == '*') {
      return refuse("'(*'");
    } else if (c == '}' && peek(1) == '+') {
      return refuse("'}+'");  // repeats the repetition there, is possessive here
    }
    copy(1);
    return {};
  }

  // (?m) lets the dot match newlines there.
  Status group_option() {
    for (size_t i = 2; (peek(i) >= 'a' && peek(i) <= 'z') || peek(i) == '-'; ++i) {
      if (peek(i) != 'i' && peek(i) != '-') return refuse("an option other than (?i)");
    }
    copy(2);
    return {};
  }

  Status escape() {
    const char c = peek(1);
    if (c == '\0') return refuse("a pattern that ends in '\\'");
    if (c == 'w' || c == 'W') {
      if (in_class_ && c == 'W') return refuse("'\\W' in a class");
      out_ += in_class_ ? "" : c == 'w' ? "[" : "[^";
      out_ += kWord;
      out_ += in_class_ ? "" : "]";
      pos_ += 2;
      return {};
    }
    if (c == 'u') {
      out_ += "\\x{";
      pos_ += 2;
      copy(std::min<size_t>(4, pattern_.size() - pos_));
      out_ += '}';
      return {};
    }
    if ((c == 'p' || c == 'P' || c == 'x') && peek(2) == '{') {
      const size_t end = pattern_.find('}', pos_);
      if (end == std::string_view::npos) return refuse("'{' without '}'");
      copy(end + 1 - pos_);
      return {};
    }
    constexpr std::string_view kOther = "hHRXKGgkNOyYBbC";
    if (kOther.find(c) != std::string_view::npos) return refuse(format("'\\{}'", c));
    copy(2);
    return {};
  }

  std::string_view pattern_;
  std::string out_;
  size_t pos_ = 0;
  bool in_class_ = false;
};

template <typename T, void (*kFree)(T*)>
struct Free {
  void operator()(T* pointer) const { kFree(pointer); }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code, pcre2_code_free>>;
using Context =
    std::unique_ptr<pcre2_match_context, Free<pcre2_match_context, pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data, pcre2_match_data_free>>;

std::string error_text(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Impl {
  Code code;
  Context context;
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<std::string> translate_pattern(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return unsupported(format("a pattern of {} bytes", pattern.size()));
  }
  return Translator(pattern).run();
}

Result<Regex> Regex::compile(std::string_view pattern) {
  const std::string translated = OCTAVO_TRY(translate_pattern(pattern));
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  // ^ and $ are about lines in Ruby's syntax.
  auto impl = std::make_unique<Impl>();
  impl->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
      &error, &error_offset, nullptr));
  if (!impl->code) {
    return data_loss(
        format("pattern '{}': {} at byte {}", translated, error_text(error), error_offset));
  }
  pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE);  // where it fails, the interpreter runs
  impl->context.reset(pcre2_match_context_create(nullptr));
  OCTAVO_CHECK(impl->context);
  pcre2_set_match_limit(impl->context.get(), kMatchLimit);
  pcre2_set_heap_limit(impl->context.get(), kHeapLimitKib);
  return Regex(std::move(impl));
}

Result<std::optional<TextSpan>> Regex::find(std::string_view text, size_t from) const {
  thread_local const MatchData match(pcre2_match_data_create(1, nullptr));
  OCTAVO_CHECK(match);
  const auto run = [&](uint32_t options) {
    // PCRE2's own check of the text would look at all of it for every match.
    return pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                       from, PCRE2_NO_UTF_CHECK | options, match.get(), impl_->context.get());
  };
  int found = run(0);
  // Compiled code works on the thread's stack, the interpreter on the heap.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = run(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<TextSpan>();
  if (found < 0) {
    return resource_exhausted(format("a pattern of the tokenizer on a text of {} bytes: {}",
                                     text.size(), error_text(found)));
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
  return std::optional<TextSpan>({ends[0], ends[1]});
}

}  // namespace octavo::tokenizer
