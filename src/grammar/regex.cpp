#include "grammar/regex.h"

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "grammar/pattern_parser.h"

namespace octavo::grammar {
namespace {

const CharSet kDigits = {{'0', '9'}};
const CharSet kWordChars = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
const CharSet kSpaces = {{'\t', '\r'}, {' ', ' '}};
// Whether these are spaces depends on who reads them: neither \s nor \S is one.
const CharSet kUnicodeSpaces = {{'\t', '\r'},     {' ', ' '},       {0x85, 0x85},
                                {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                {0x3000, 0x3000}, {0xFEFF, 0xFEFF}, {0x1C, 0x1F}};

class RegexParser final : PatternParser {
 public:
  RegexParser(std::string_view text, Builder& builder, const SpellChars& spell)
      : PatternParser(text, builder), spell_(spell) {}

  Result<ExprId> parse() {
    const ExprId expr = OCTAVO_TRY(parse_alternatives(0));
    if (pos_ < text_.size()) return error("a ) has no (");
    return expr;
  }

 private:
  Status error(std::string_view what) const override {
    return invalid_argument(format("position {}: {}", pos_, what));
  }

  bool at_end_of_sequence() const { return pos_ >= text_.size() || at("|") || at(")"); }

  Result<ExprId> parse_alternatives(int depth) {
    if (depth > kMaxNesting) return error("groups are nested too deeply");
    std::vector<ExprId> alternatives;
    do {
      alternatives.push_back(OCTAVO_TRY(parse_sequence(depth)));
    } while (skip("|"));
    return builder_.alternatives(std::move(alternatives));
  }

  // ^ and $ mean something only where the whole text begins and ends; as far as it goes by groups,
  // they must be at such a place.
  Result<ExprId> parse_sequence(int depth) {
    std::vector<ExprId> parts;
    const bool at_start = starts_text_;
    const bool at_last = ends_text_;
    while (!at_end_of_sequence()) {
      if (at("^")) {
        if (!at_start || !parts.empty()) return error("^ can stand at the beginning only");
        ++pos_;
        continue;
      }
      if (skip("$")) {
        if (!at_last || !at_end_of_sequence()) return error("$ can stand at the end only");
        break;
      }
      const char after = after_group();
      const bool repeats = after == '*' || after == '+' || after == '?' || after == '{';
      starts_text_ = at_start && parts.empty() && !repeats;
      ends_text_ = at_last && (after == ')' || after == '|' || after == '$');
      const ExprId item = OCTAVO_TRY(parse_item(depth));
      parts.push_back(OCTAVO_TRY(parse_repeats(item)));
    }
    starts_text_ = at_start;
    ends_text_ = at_last;
    return builder_.sequence(std::move(parts));
  }

  // The byte after the group that begins here, ')' where there is none; ' ' where no group does.
  char after_group() const {
    if (!at("(")) return ' ';
    int depth = 0;
    bool in_class = false;
    for (size_t i = pos_; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\\') {
        ++i;
      } else if (in_class) {
        in_class = c != ']';
      } else if (c == '[') {
        in_class = true;
      } else if (c == '(') {
        ++depth;
      } else if (c == ')' && --depth == 0) {
        return i + 1 < text_.size() ? text_[i + 1] : ')';
      }
    }
    return ' ';
  }

  Result<ExprId> parse_item(int depth) {
    if (skip("(")) {
      OCTAVO_TRY(parse_group_kind());
      const ExprId group = OCTAVO_TRY(parse_alternatives(depth + 1));
      if (!skip(")")) return error("a ) is missing");
      return group;
    }
    if (skip("[")) return parse_class();
    if (skip(".")) return spell_(kLineEnds.complement());
    if (at("*") || at("+") || at("?") || at("{")) return error("nothing stands before a repeat");
    return spell_(OCTAVO_TRY(parse_chars(false)));
  }

  Status parse_group_kind() {
    if (!skip("?")) return {};
    if (skip(":")) return {};
    skip("P");
    if (at("<=") || at("<!") || !skip("<")) {
      return error("this kind of group is not supported: (?:…) and (?<name>…) are");
    }
    while (pos_ < text_.size() && text_[pos_] != '>') ++pos_;
    return skip(">") ? Status() : error("a > is missing");
  }

  Result<ExprId> parse_repeats(ExprId part) {
    for (int i = 0; i < kMaxNesting; ++i) {
      if (!OCTAVO_TRY(parse_repeat(part))) return part;
      skip("?");  // lazy: the same texts
      if (at("+") || at("*")) return error("possessive repeats are not supported");
    }
    return error("repeats are nested too deeply");
  }

  Result<ExprId> parse_counts(ExprId part) override {
    const auto min = OCTAVO_TRY(parse_count());
    auto max = min;
    if (skip(",")) {
      max = OCTAVO_TRY(parse_count());
      if (!max) max = kUnlimited;
    }
    if (!min || !skip("}")) return error("a repeat must be {m}, {m,} or {m,n}");
    if (*min > *max) return error("a repeat has its least above its most");
    return builder_.repeat(part, *min, *max);
  }

  Result<ExprId> parse_class() {
    const bool inverse = skip("^");
    CharSet set;
    for (bool first = true; !(at("]") && !first); first = false) {
      if (pos_ >= text_.size()) return error("a ] is missing");
      if (at("[:") || at("[.") || at("[=")) return error("named classes are not supported");
      if (at("]")) return error("a class has no characters");
      CharSet begin = OCTAVO_TRY(parse_chars(true, inverse));
      if (!at("-") || at("-]")) {
        set.add(begin);
        continue;
      }
      ++pos_;
      if (pos_ >= text_.size()) return error("a ] is missing");
      const CharSet end = OCTAVO_TRY(parse_chars(true, inverse));
      const auto is_one = [](const CharSet& s) {
        return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
      };
      if (!is_one(begin) || !is_one(end) || end.ranges()[0].first < begin.ranges()[0].first) {
        return error("a range of characters has no such ends");
      }
      set.add(begin.ranges()[0].first, end.ranges()[0].first);
    }
    ++pos_;
    if (inverse) set = set.complement();
    if (set.empty()) return error("a class has no characters");
    return spell_(set);
  }

  // A character, or what a class like \d stands for; `inverse`: what it might stand for.
  Result<CharSet> parse_chars(bool in_class, bool inverse = false) {
    if (!skip("\\")) {
      const char32_t code = OCTAVO_TRY(parse_plain_char());
      return CharSet({{code, code}});
    }
    if (pos_ >= text_.size()) return error("an escape is not complete");
    const char c = text_[pos_++];
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return kDigits.complement();
      case 'w':
        return kWordChars;
      case 'W':
        return kWordChars.complement();
      case 's':
        return inverse ? kUnicodeSpaces : kSpaces;
      case 'S':
        return (inverse ? kSpaces : kUnicodeSpaces).complement();
      default:
        break;
    }
    const char32_t code = OCTAVO_TRY(parse_escape(c, in_class));
    return CharSet({{code, code}});
  }

  Result<char32_t> parse_escape(char c, bool in_class) {
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case '0':
        return U'\0';
      case 'x':
        return parse_hex(2, kNoSurrogates);
      case 'u':
        return parse_hex(4, kNoSurrogates);
      case 'b':
        if (in_class) return U'\b';
        [[fallthrough]];
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    if (byte >= 0x80 || letter || (c >= '0' && c <= '9')) {
      return error(format("the escape \\{} is not supported", printable({&c, 1})));
    }
    return static_cast<char32_t>(byte);
  }

  static constexpr std::string_view kNoSurrogates = "surrogates are no characters";

  const SpellChars& spell_;
  bool starts_text_ = true;  // what is parsed now begins the text
  bool ends_text_ = true;    // and ends it
};

}  // namespace

Result<ExprId> parse_regex(std::string_view text, Builder& builder, const SpellChars& spell) {
  return RegexParser(text, builder, spell).parse();
}

}  // namespace octavo::grammar
