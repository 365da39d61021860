#include "grammar/json_text.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/utf8.h"

namespace octavo::grammar {
namespace {

// What a double or an int64 still tells apart.
constexpr uint32_t kMaxDigits = 18;
constexpr int64_t kMaxInteger = 999'999'999'999'999'999;

constexpr uint32_t kMaxIndent = 20;

const CharSet& control_chars() {
  static const CharSet set = {{0, 0x1F}};
  return set;
}

CharSet must_escape() {
  CharSet set = control_chars();
  set.add('"', '"');
  set.add('\\', '\\');
  return set;
}

// The spellings of a character that cannot stand as itself.
std::vector<std::string> escapes(char32_t c) {
  constexpr std::pair<char32_t, char> kShort[] = {
      {'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
  for (const auto& [plain, letter] : kShort) {
    if (plain == c) return {{'\\', letter}};
  }
  constexpr char kHex[] = "0123456789abcdef";
  return {std::string("\\u00") + kHex[c >> 4] + kHex[c & 15]};
}

}  // namespace

JsonText::JsonText(Builder& builder)
    : builder_(builder),
      space_(builder.add_rule("white space")),
      char_(builder.add_rule("a character")),
      value_(builder.add_rule("a value")),
      object_(builder.add_rule("an object")) {
  Builder& b = builder_;
  const ExprId indent = b.repeat(b.chars({{' ', ' '}, {'\t', '\t'}}), 0, kMaxIndent);
  b.define(space_, b.alternatives({b.empty(), b.literal(" "),
                                   b.sequence({b.repeat(b.literal("\n"), 1, 2), indent})}));
  const CharSet hex_set = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
  const ExprId hex = b.chars(hex_set);
  const ExprId d = b.chars({{'d', 'd'}, {'D', 'D'}});
  const ExprId no_surrogate = b.alternatives(
      {b.sequence({b.chars(hex_set.without({{'d', 'd'}, {'D', 'D'}})), b.repeat(hex, 3, 3)}),
       b.sequence({d, b.chars({{'0', '7'}}), b.repeat(hex, 2, 2)})});
  const ExprId pair =
      b.sequence({d, b.chars({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), b.repeat(hex, 2, 2),
                  b.literal("\\u"), d, b.chars({{'c', 'f'}, {'C', 'F'}}), b.repeat(hex, 2, 2)});
  const ExprId code = b.sequence({b.literal("u"), b.alternatives({no_surrogate, pair})});
  const ExprId letter = b.literals({"\"", "\\", "/", "b", "f", "n", "r", "t"});
  b.define(char_, b.alternatives({b.chars(must_escape().complement()),
                                  b.sequence({b.literal("\\"), b.alternatives({letter, code})})}));
  define_values();
}

void JsonText::define_values() {
  Builder& b = builder_;
  const RuleId array_rule = b.add_rule("an array");
  b.define(array_rule, array(any_value(), 0, kUnlimited));
  const ExprId pair = b.add_and_call("a member", member(string(0, kUnlimited), any_value()));
  const ExprId more = b.repeat(b.sequence({comma(), pair}), 0, kUnlimited);
  b.define(object_, b.sequence({b.literal("{"), space(),
                                b.optional(b.sequence({pair, more, space()})), b.literal("}")}));
  b.define(value_, b.alternatives({any_object(), b.call(array_rule),
                                   b.add_and_call("a string", string(0, kUnlimited)), number(),
                                   b.literals({"true", "false", "null"})}));
}

ExprId JsonText::chars(const CharSet& set) {
  const CharSet special = must_escape();
  const CharSet plain = set.without(special);
  std::vector<ExprId> parts;
  if (!plain.empty()) parts.push_back(builder_.chars(plain));
  std::vector<std::string> escaped;
  for (const CharRange& range : special.ranges()) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (!set.contains(c)) continue;
      for (std::string& text : escapes(c)) escaped.push_back(std::move(text));
    }
  }
  if (!escaped.empty()) parts.push_back(builder_.literals(std::move(escaped)));
  return builder_.alternatives(std::move(parts));
}

ExprId JsonText::quoted(ExprId content) {
  return builder_.sequence({builder_.literal("\""), content, builder_.literal("\"")});
}

ExprId JsonText::string(uint32_t min, uint32_t max) {
  return quoted(builder_.repeat(builder_.call(char_), min, max));
}

// A tree of the names: where a text leaves it, anything may follow.
ExprId JsonText::string_except(const std::vector<std::string>& names) {
  struct Branch {
    std::map<char32_t, size_t> children;
    bool is_name = false;
  };
  std::vector<Branch> tree(1);
  for (const std::string& name : names) {
    size_t at = 0;
    for (size_t i = 0; i < name.size();) {
      const Utf8Char c = utf8_decode(name, i);
      i += c.size_bytes;
      const auto [child, is_new] = tree[at].children.try_emplace(c.code_point, tree.size());
      at = child->second;
      if (is_new) tree.emplace_back();
    }
    tree[at].is_name = true;
  }
  Builder& b = builder_;
  const CharSet plain = must_escape().complement();
  const ExprId rest = b.add_and_call("a key", b.repeat(b.chars(plain), 0, kUnlimited));
  std::vector<ExprId> exprs(tree.size());
  for (size_t i = tree.size(); i > 0; --i) {  // children come after their parents
    const Branch& branch = tree[i - 1];
    CharSet taken;
    std::vector<ExprId> ways;
    if (!branch.is_name) ways.push_back(b.empty());
    for (const auto& [c, child] : branch.children) {
      taken.add(c, c);
      if (plain.contains(c)) ways.push_back(b.sequence({b.chars({{c, c}}), exprs[child]}));
    }
    ways.push_back(b.sequence({b.chars(plain.without(taken)), rest}));
    exprs[i - 1] = b.add_and_call("a key", b.alternatives(std::move(ways)));
  }
  return quoted(exprs[0]);
}

// --- numbers ------------------------------------------------------------------------------------

ExprId JsonText::digits(uint32_t min, uint32_t max) {
  return builder_.repeat(builder_.chars({{'0', '9'}}), min, max);
}

ExprId JsonText::fraction() {
  return builder_.optional(builder_.sequence({builder_.literal("."), digits(1, kMaxDigits)}));
}

ExprId JsonText::integer() {
  Builder& b = builder_;
  const ExprId many = b.sequence({b.chars({{'1', '9'}}), digits(0, kMaxDigits - 1)});
  return b.sequence({b.optional(b.literal("-")), b.alternatives({b.literal("0"), many})});
}

ExprId JsonText::number() {
  Builder& b = builder_;
  const ExprId exponent = b.optional(b.sequence(
      {b.chars({{'e', 'e'}, {'E', 'E'}}), b.optional(b.literals({"+", "-"})), digits(1, 2)}));
  return b.sequence({integer(), fraction(), exponent});
}

// Digits of the same number as `bound`, from it on or up to it.
ExprId JsonText::from_digits(const std::string& bound, bool upwards) {
  if (bound.empty()) return builder_.empty();
  const char digit = bound[0];
  const CharRange rest = upwards ? CharRange{static_cast<char32_t>(digit + 1), '9'}
                                 : CharRange{'0', static_cast<char32_t>(digit - 1)};
  const ExprId on = builder_.sequence(
      {builder_.literal(std::string(1, digit)), from_digits(bound.substr(1), upwards)});
  if (rest.first > rest.last) return on;
  const auto num_rest = static_cast<uint32_t>(bound.size() - 1);
  return builder_.alternatives(
      {on, builder_.sequence({builder_.chars({rest}), digits(num_rest, num_rest)})});
}

ExprId JsonText::same_length(const std::string& min, const std::string& max) {
  if (min.empty()) return builder_.empty();
  Builder& b = builder_;
  const ExprId first = b.literal(min.substr(0, 1));
  if (min[0] == max[0]) return b.sequence({first, same_length(min.substr(1), max.substr(1))});
  std::vector<ExprId> ways = {
      b.sequence({first, from_digits(min.substr(1), true)}),
      b.sequence({b.literal(max.substr(0, 1)), from_digits(max.substr(1), false)})};
  if (min[0] + 1 < max[0]) {
    const CharRange between = {static_cast<char32_t>(min[0] + 1),
                               static_cast<char32_t>(max[0] - 1)};
    const auto num_rest = static_cast<uint32_t>(min.size() - 1);
    ways.push_back(b.sequence({b.chars({between}), digits(num_rest, num_rest)}));
  }
  return b.alternatives(std::move(ways));
}

ExprId JsonText::natural_between(uint64_t min, uint64_t max) {
  std::vector<ExprId> ways;
  uint64_t first = min;
  while (true) {
    const std::string text = format("{}", first);
    const std::string longest(text.size(), '9');
    const std::string most = format("{}", max);
    const bool last = most.size() == text.size();
    ways.push_back(same_length(text, last ? most : longest));
    if (last) return builder_.alternatives(std::move(ways));
    first = 1;
    for (size_t i = 0; i < text.size(); ++i) first *= 10;
  }
}

ExprId JsonText::integer_between(std::optional<int64_t> min, std::optional<int64_t> max) {
  const int64_t least = std::max(min.value_or(-kMaxInteger), -kMaxInteger);
  const int64_t most = std::min(max.value_or(kMaxInteger), kMaxInteger);
  std::vector<ExprId> ways;
  if (most >= 0) {
    ways.push_back(natural_between(static_cast<uint64_t>(std::max<int64_t>(least, 0)),
                                   static_cast<uint64_t>(most)));
  }
  if (least < 0) {
    const auto nearest = static_cast<uint64_t>(std::max<int64_t>(-most, 1));
    ways.push_back(builder_.sequence(
        {builder_.literal("-"), natural_between(nearest, static_cast<uint64_t>(-least))}));
  }
  return builder_.alternatives(std::move(ways));
}

// A fraction may follow a whole number that is not the bound farther from zero.
ExprId JsonText::number_between(std::optional<int64_t> min, std::optional<int64_t> max) {
  Builder& b = builder_;
  const int64_t least = std::max(min.value_or(-kMaxInteger), -kMaxInteger);
  const int64_t most = std::min(max.value_or(kMaxInteger), kMaxInteger);
  std::vector<ExprId> ways;
  const auto add = [&](int64_t nearest, int64_t farthest, bool negative) {
    std::vector<ExprId> amounts = {b.literal(format("{}", farthest))};
    if (nearest < farthest) {
      const ExprId whole =
          natural_between(static_cast<uint64_t>(nearest), static_cast<uint64_t>(farthest - 1));
      amounts.push_back(b.sequence({whole, fraction()}));
    }
    const ExprId amount = b.alternatives(std::move(amounts));
    ways.push_back(negative ? b.sequence({b.literal("-"), amount}) : amount);
  };
  if (most >= 0) add(std::max<int64_t>(least, 0), most, false);
  if (least < 0) add(std::max<int64_t>(-most, 0), -least, true);
  return b.alternatives(std::move(ways));
}

// --- arrays and objects -------------------------------------------------------------------------

ExprId JsonText::comma() {
  return builder_.sequence({space(), builder_.literal(","), space()});
}

ExprId JsonText::member(ExprId key, ExprId value) {
  return builder_.sequence({key, space(), builder_.literal(":"), space(), value});
}

ExprId JsonText::array(ExprId item, uint32_t min, uint32_t max) {
  Builder& b = builder_;
  const ExprId begin = b.sequence({b.literal("["), space()});
  if (max == 0) return b.sequence({begin, b.literal("]")});
  const uint32_t most = max == kUnlimited ? kUnlimited : max - 1;
  const ExprId more = b.repeat(b.sequence({comma(), item}), min == 0 ? 0 : min - 1, most);
  const ExprId items = b.sequence({item, more, space()});
  return b.sequence({begin, min == 0 ? b.optional(items) : items, b.literal("]")});
}

}  // namespace octavo::grammar
