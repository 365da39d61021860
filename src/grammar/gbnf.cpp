#include "grammar/gbnf.h"

#include <map>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "grammar/pattern_parser.h"

namespace octavo::grammar {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser final : PatternParser {
 public:
  GbnfParser(std::string_view text, Builder& builder) : PatternParser(text, builder) {}

  Result<RuleId> parse() {
    for (skip_space(true); pos_ < text_.size(); skip_space(true)) OCTAVO_TRY(parse_rule());
    const auto root = rules_.find("root");
    if (root == rules_.end()) return invalid_argument("it has no rule root");
    return root->second;
  }

 private:
  Status error(std::string_view what) const override {
    size_t line = 1;
    for (size_t i = 0; i < pos_ && i < text_.size(); ++i) line += text_[i] == '\n' ? 1 : 0;
    return invalid_argument(format("line {}: {}", line, what));
  }

  // And comments.
  void skip_space(bool newlines) {
    while (pos_ < text_.size()) {
      const char c = text_[pos_];
      if (c == '#') {
        while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++pos_;
      } else {
        return;
      }
    }
  }

  std::string_view parse_name() {
    const size_t begin = pos_;
    while (pos_ < text_.size() && is_name_char(text_[pos_])) ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  RuleId rule_named(std::string_view name) {
    const auto [found, is_new] = rules_.try_emplace(std::string(name));
    if (is_new) found->second = builder_.add_rule(format("the rule {}", name));
    return found->second;
  }

  Status parse_rule() {
    const std::string_view name = parse_name();
    if (name.empty()) return error("a rule must begin with its name");
    const RuleId rule = rule_named(name);
    if (builder_.rules()[rule].defined) return error(format("{} is defined twice", name));
    skip_space(false);
    if (!skip("::=")) return error(format("::= is missing after {}", name));
    skip_space(true);
    builder_.define(rule, OCTAVO_TRY(parse_alternatives(0)));
    if (pos_ < text_.size() && text_[pos_] != '\n' && text_[pos_] != '\r') {
      return error(format("'{}' is not understood", printable(text_.substr(pos_, 1))));
    }
    return {};
  }

  // Within parentheses a rule goes over lines.
  Result<ExprId> parse_alternatives(int depth) {
    if (depth > kMaxNesting) return error("groups are nested too deeply");
    std::vector<ExprId> alternatives;
    do {
      skip_space(true);
      alternatives.push_back(OCTAVO_TRY(parse_sequence(depth)));
      skip_space(depth > 0);
    } while (skip("|"));
    return builder_.alternatives(std::move(alternatives));
  }

  Result<ExprId> parse_sequence(int depth) {
    std::vector<ExprId> parts;
    while (true) {
      skip_space(depth > 0);
      auto part = OCTAVO_TRY(parse_item(depth));
      if (!part) return builder_.sequence(std::move(parts));
      parts.push_back(OCTAVO_TRY(parse_repeats(*part)));
    }
  }

  // Nothing where none begins here.
  Result<std::optional<ExprId>> parse_item(int depth) {
    using Item = std::optional<ExprId>;
    if (at("\"")) return Item(OCTAVO_TRY(parse_literal()));
    if (at("[")) return Item(OCTAVO_TRY(parse_class()));
    if (skip(".")) return Item(builder_.chars(CharSet().complement()));
    if (skip("(")) {
      const ExprId group = OCTAVO_TRY(parse_alternatives(depth + 1));
      if (!skip(")")) return error("a ) is missing");
      return Item(group);
    }
    const size_t begin = pos_;
    const std::string_view name = parse_name();
    if (name.empty()) return Item();
    const size_t end = pos_;
    skip_space(false);
    if (at("::=")) {  // the next rule
      pos_ = begin;
      return Item();
    }
    pos_ = end;
    return Item(builder_.call(rule_named(name)));
  }

  Result<ExprId> parse_repeats(ExprId part) {
    for (int i = 0; i < kMaxNesting; ++i) {
      if (!OCTAVO_TRY(parse_repeat(part))) return part;
    }
    return error("repeats are nested too deeply");
  }

  Result<ExprId> parse_counts(ExprId part) override {
    skip_space(false);
    const auto min = OCTAVO_TRY(parse_count());
    auto max = min;
    skip_space(false);
    if (skip(",")) {
      skip_space(false);
      max = OCTAVO_TRY(parse_count());
      skip_space(false);
      if (!max) max = kUnlimited;
    }
    if (!skip("}") || !max) return error("a repeat must be {m}, {m,}, {,n} or {m,n}");
    if (min.value_or(0) > *max) return error("a repeat has its least above its most");
    return builder_.repeat(part, min.value_or(0), *max);
  }

  Result<ExprId> parse_literal() {
    ++pos_;
    std::string bytes;
    while (!skip("\"")) {
      if (pos_ >= text_.size() || text_[pos_] == '\n') return error("a \" is missing");
      utf8_append(bytes, OCTAVO_TRY(parse_char()));
    }
    return builder_.literal(std::move(bytes));
  }

  Result<ExprId> parse_class() {
    ++pos_;
    const bool inverse = skip("^");
    CharSet set;
    while (!skip("]")) {
      if (pos_ >= text_.size() || text_[pos_] == '\n') return error("a ] is missing");
      const char32_t first = OCTAVO_TRY(parse_char());
      char32_t last = first;
      if (at("-") && !at("-]")) {
        ++pos_;
        if (pos_ >= text_.size()) return error("a ] is missing");
        last = OCTAVO_TRY(parse_char());
      }
      if (last < first) return error("a range of characters ends before it begins");
      set.add(first, last);
    }
    if (inverse) set = set.complement();
    if (set.complement().complement().empty()) return error("a class has no characters");
    return builder_.chars(std::move(set));
  }

  Result<char32_t> parse_char() {
    if (!skip("\\")) return parse_plain_char();
    if (pos_ >= text_.size()) return error("an escape is not complete");
    const char c = text_[pos_++];
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'x':
        return parse_hex(2, kNoCharacter);
      case 'u':
        return parse_hex(4, kNoCharacter);
      case 'U':
        return parse_hex(8, kNoCharacter);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      default:
        return error("an escape is not known");
    }
  }

  static constexpr std::string_view kNoCharacter = "an escape is no character";

  std::map<std::string, RuleId> rules_;
};

}  // namespace

Result<RuleId> parse_gbnf(std::string_view text, Builder& builder) {
  return GbnfParser(text, builder).parse();
}

}  // namespace octavo::grammar
