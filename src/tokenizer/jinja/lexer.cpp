#include "tokenizer/jinja/lexer.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "tokenizer/jinja/source.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/unicode_case.h"

namespace octavo::tokenizer::jinja {
namespace {

constexpr size_t kMaxSourceBytes = size_t{1} << 20;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_digit_of(char c, int base) {
  const char lower = static_cast<char>(c | 0x20);
  if (base == 16 && lower >= 'a' && lower <= 'f') return true;
  return c >= '0' && c < '0' + std::min(base, 10);
}

// Longest first, so that the first match is the right one.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}
  Result<std::vector<Token>> run();

 private:
  char peek(size_t ahead = 0) const {
    return pos_ + ahead < source_.size() ? source_[pos_ + ahead] : '\0';
  }
  bool at(std::string_view text) const { return source_.substr(pos_, text.size()) == text; }
  Status fail(size_t offset, std::string_view message) const {
    return invalid_argument(locate_message(source_, offset, message));
  }
  void add(TokenKind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, static_cast<uint32_t>(begin), source_.substr(begin, end - begin), {}});
  }
  size_t skip_space(size_t pos) const;
  char take_sign();
  void add_data(size_t begin, size_t end, char sign, bool strips_line_start);
  Status lex_tag();
  Status skip_comment();
  size_t raw_tag_end(size_t begin) const;
  Status lex_raw(size_t tag, size_t data_begin);
  Status lex_expression(std::string_view closer, TokenKind end_kind);
  bool take_closer(std::string_view closer, TokenKind end_kind);
  Status lex_one();
  bool lex_number();
  size_t digits_end(size_t pos) const;
  Status lex_string();
  bool lex_name();
  Status lex_operator();

  std::string_view source_;
  size_t pos_ = 0;
  bool line_starting_ = true;  // the last tag's newline was dropped, or nothing came before
  std::string brackets_;       // the open ones
  std::vector<Token> tokens_;
};

size_t Lexer::skip_space(size_t pos) const {
  while (pos < source_.size()) {
    const Utf8Char c = utf8_decode(source_, pos);
    if (!unicode_is_space(c.code_point)) break;
    pos += c.size_bytes;
  }
  return pos;
}

char Lexer::take_sign() {
  const char c = peek();
  if (c != '-' && c != '+') return '\0';
  ++pos_;
  return c;
}

// Text up to a tag. `sign` is the tag's own; blocks and comments also take the white space between
// them and the start of their line.
void Lexer::add_data(size_t begin, size_t end, char sign, bool strips_line_start) {
  std::string_view text = source_.substr(begin, end - begin);
  if (sign == '-') {
    text = text.substr(0, strip_span(text, Strip::kRight, nullptr).end);
  } else if (sign != '+' && strips_line_start) {
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if ((line > 0 || line_starting_) && skip_space(begin + line) >= end) {
      text = text.substr(0, line);
    }
  }
  if (!text.empty()) {
    tokens_.push_back({TokenKind::kData, static_cast<uint32_t>(begin), text, {}});
  }
}

Result<std::vector<Token>> Lexer::run() {
  if (source_.size() > kMaxSourceBytes) return invalid_argument("chat template: larger than 1 MiB");
  while (pos_ < source_.size()) OCTAVO_TRY(lex_tag());
  add(TokenKind::kEnd, source_.size(), source_.size());
  return std::move(tokens_);
}

// Data up to the next tag, and that tag.
Status Lexer::lex_tag() {
  const size_t begin = pos_;
  size_t tag = begin;
  do {
    tag = source_.find('{', tag);
    if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
      add(TokenKind::kData, begin, source_.size());
      pos_ = source_.size();
      return {};
    }
    const char second = source_[tag + 1];
    if (second == '{' || second == '%' || second == '#') break;
    ++tag;
  } while (true);
  const char second = source_[tag + 1];
  pos_ = tag + 2;
  const size_t raw_begin = second == '%' ? raw_tag_end(tag) : 0;
  const char sign = take_sign();
  add_data(begin, tag, sign, second != '{');
  line_starting_ = false;
  if (raw_begin != 0) return lex_raw(tag, raw_begin);
  if (second == '#') return skip_comment();
  if (second == '%') {
    add(TokenKind::kBlockBegin, tag, pos_);
    return lex_expression("%}", TokenKind::kBlockEnd);
  }
  add(TokenKind::kVariableBegin, tag, pos_);
  return lex_expression("}}", TokenKind::kVariableEnd);
}

Status Lexer::skip_comment() {
  const size_t close = source_.find("#}", pos_);
  if (close == std::string_view::npos) {
    if (pos_ >= source_.size()) return {};  // Jinja2 does not mind an open comment without a text
    return fail(pos_, "a comment has no end");
  }
  const char sign = close > pos_ ? source_[close - 1] : '\0';
  pos_ = close + 2;
  if (sign == '-') {
    pos_ = skip_space(pos_);
  } else if (sign != '+' && peek() == '\n') {
    ++pos_;
  }
  line_starting_ = source_[pos_ - 1] == '\n';
  return {};
}

// Where the data of `{% raw %}` starts if such a tag is at `begin`, else 0.
size_t Lexer::raw_tag_end(size_t begin) const {
  size_t pos = begin + 2;
  if (pos < source_.size() && (source_[pos] == '-' || source_[pos] == '+')) ++pos;
  pos = skip_space(pos);
  if (source_.substr(pos, 3) != "raw") return 0;
  pos = skip_space(pos + 3);
  if (source_.substr(pos, 3) == "-%}") return skip_space(pos + 3);
  return source_.substr(pos, 2) == "%}" ? pos + 2 : 0;
}

Status Lexer::lex_raw(size_t tag, size_t data_begin) {
  line_starting_ = source_[data_begin - 1] == '\n';
  for (size_t open = source_.find("{%", data_begin); open != std::string_view::npos;
       open = source_.find("{%", open + 1)) {
    pos_ = open + 2;
    const char sign = take_sign();
    pos_ = skip_space(pos_);
    if (!at("endraw")) continue;
    pos_ = skip_space(pos_ + 6);
    const bool strips = at("-%}");
    const bool keeps = at("+%}");
    if (!strips && !keeps && !at("%}")) continue;
    pos_ += strips || keeps ? 3 : 2;
    if (strips) {
      pos_ = skip_space(pos_);
    } else if (!keeps && peek() == '\n') {
      ++pos_;
    }
    add_data(data_begin, open, sign, true);
    line_starting_ = source_[pos_ - 1] == '\n';
    return {};
  }
  pos_ = source_.size();
  return data_begin >= pos_ ? Status() : fail(tag, "a raw block has no end");
}

bool Lexer::take_closer(std::string_view closer, TokenKind end_kind) {
  const size_t begin = pos_;
  const bool is_block = end_kind == TokenKind::kBlockEnd;
  const bool signed_closer =
      (peek() == '-' || (is_block && peek() == '+')) && source_.substr(pos_ + 1, 2) == closer;
  if (!signed_closer && !at(closer)) return false;
  const char sign = signed_closer ? peek() : '\0';
  pos_ += signed_closer ? 3 : 2;
  add(end_kind, begin, pos_);
  if (sign == '-') {
    pos_ = skip_space(pos_);
  } else if (is_block && sign != '+' && peek() == '\n') {
    ++pos_;
  }
  line_starting_ = source_[pos_ - 1] == '\n';
  return true;
}

// Tokens up to the end of a tag. Inside brackets `}}` and `%}` are operators.
Status Lexer::lex_expression(std::string_view closer, TokenKind end_kind) {
  const size_t opened_at = pos_ - 2;
  brackets_.clear();
  while (true) {
    if (pos_ >= source_.size()) return fail(opened_at, "a tag has no end");
    if (brackets_.empty() && take_closer(closer, end_kind)) return {};
    const size_t after_space = skip_space(pos_);
    if (after_space > pos_) {
      pos_ = after_space;
      continue;
    }
    OCTAVO_TRY(lex_one());
  }
}

Status Lexer::lex_one() {
  if (is_digit(peek()) && lex_number()) return {};
  if (lex_name()) return {};
  if (peek() == '"' || peek() == '\'') return lex_string();
  return lex_operator();
}

// The end of digits that single underscores may separate.
size_t Lexer::digits_end(size_t pos) const {
  while (pos < source_.size()) {
    const bool joins = source_[pos] == '_' && pos + 1 < source_.size();
    if (!is_digit(source_[joins ? pos + 1 : pos])) break;
    pos += joins ? 2 : 1;
  }
  return pos;
}

bool Lexer::lex_number() {
  const size_t begin = pos_;
  const bool after_dot = begin > 0 && source_[begin - 1] == '.';
  size_t end = digits_end(begin);
  bool is_float = false;
  if (!after_dot) {
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits_end(end + 1);
      is_float = true;
    }
    size_t exponent = end;
    if (exponent < source_.size() && (source_[exponent] | 0x20) == 'e') {
      ++exponent;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
        ++exponent;
      }
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        end = digits_end(exponent);
        is_float = true;
      }
    }
  }
  if (is_float) {
    add(TokenKind::kFloat, begin, end);
    pos_ = end;
    return true;
  }
  const char prefix = static_cast<char>(peek(1) | 0x20);
  const int base = prefix == 'b' ? 2 : prefix == 'o' ? 8 : prefix == 'x' ? 16 : 0;
  if (source_[begin] == '0' && base != 0) {
    size_t pos = begin + 2;
    while (pos < source_.size()) {
      const bool joins = source_[pos] == '_' && pos + 1 < source_.size();
      if (!is_digit_of(source_[joins ? pos + 1 : pos], base)) break;
      pos += joins ? 2 : 1;
    }
    if (pos > begin + 2) {
      add(TokenKind::kInteger, begin, pos);
      pos_ = pos;
      return true;
    }
  }
  if (source_[begin] == '0') {  // 007 is not a number in Python: it ends after its zeros
    for (end = begin + 1;
         peek(end - begin) == '0' || (peek(end - begin) == '_' && peek(end - begin + 1) == '0');) {
      end += peek(end - begin) == '_' ? 2 : 1;
    }
  }
  add(TokenKind::kInteger, begin, end);
  pos_ = end;
  return true;
}

bool Lexer::lex_name() {
  const size_t begin = pos_;
  while (pos_ < source_.size()) {
    const Utf8Char c = utf8_decode(source_, pos_);
    if (!c.valid || !unicode_is_word(c.code_point)) break;
    if (pos_ == begin && unicode_is_numeric(c.code_point)) break;
    pos_ += c.size_bytes;
  }
  if (pos_ == begin) return false;
  add(TokenKind::kName, begin, pos_);
  return true;
}

Status Lexer::lex_operator() {
  for (const std::string_view op : kOperators) {
    if (!at(op)) continue;
    const char c = op[0];
    if (c == '{' || c == '(' || c == '[') {
      brackets_ += c == '{' ? '}' : c == '(' ? ')' : ']';
    } else if (c == '}' || c == ')' || c == ']') {
      if (brackets_.empty()) return fail(pos_, format("unexpected '{}'", op));
      if (brackets_.back() != c) {
        return fail(pos_, format("unexpected '{}', expected '{}'", op, brackets_.back()));
      }
      brackets_.pop_back();
    }
    add(TokenKind::kOperator, pos_, pos_ + op.size());
    pos_ += op.size();
    return {};
  }
  const size_t size = utf8_decode(source_, pos_).size_bytes;
  return fail(pos_, format("unexpected character '{}'", source_.substr(pos_, size)));
}

// Appends what `\` at text[pos] stands for and moves pos behind it, as Python's string literals do;
// false where the escape is malformed.
bool unescape(std::string_view text, size_t& pos, std::string& out) {
  constexpr std::string_view kSingle = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
  const char kind = text[pos + 1];
  for (size_t i = 0; i < kSingle.size(); i += 2) {
    if (kSingle[i] != kind) continue;
    out += kSingle[i + 1];
    pos += 2;
    return true;
  }
  size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  const int base = digits > 0 ? 16 : 8;
  size_t at = pos + (digits > 0 ? 2 : 1);
  const bool fixed = digits > 0;
  if (!fixed) digits = 3;
  uint32_t code_point = 0;
  size_t count = 0;
  for (; count < digits && at < text.size() && is_digit_of(text[at], base); ++count, ++at) {
    const char c = text[at];
    const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
    code_point = code_point * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  if (fixed && (count < digits || code_point > 0x10FFFF)) return false;
  if (count > 0) {
    const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
    utf8_append(out, surrogate ? kReplacementCharacter : code_point);
    pos = at;
    return true;
  }
  if (kind == 'N') return false;
  if (kind != '\n') out += '\\';  // an unknown escape stays; a line continuation vanishes
  pos += kind == '\n' ? 2 : 1;
  return true;
}

Status Lexer::lex_string() {
  const size_t begin = pos_;
  const char quote = source_[pos_];
  size_t end = pos_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return fail(begin, "a string has no end");
  add(TokenKind::kString, begin, end + 1);
  const std::string_view inner = source_.substr(begin + 1, end - begin - 1);
  std::string& value = tokens_.back().value;
  for (size_t i = 0; i < inner.size();) {
    if (inner[i] != '\\') {
      value += inner[i++];
    } else if (!unescape(inner, i, value)) {
      return fail(begin + 1 + i, "a string has an escape that is not valid");
    }
  }
  pos_ = end + 1;
  return {};
}

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace octavo::tokenizer::jinja
