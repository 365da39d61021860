#include "quant/module_names.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>

#include "base/format.h"

namespace octavo::quant {
namespace {

// A backtracking matcher over the pattern's text: every function tries to match from `at` and calls
// `rest` with the position behind, until one accepts.
class Matcher {
 public:
  using Rest = std::function<bool(size_t)>;

  Matcher(std::string_view pattern, std::string_view text) : pattern_(pattern), text_(text) {}

  Result<bool> run() {
    if (pattern_.size() > kMaxPattern || !is_understood(0, pattern_.size())) {
      return unsupported(format("the pattern 're:{}' is not understood", pattern_));
    }
    const bool matched = alternatives(0, pattern_.size(), 0, [](size_t) { return true; });
    if (gave_up()) return unsupported(format("the pattern 're:{}' takes too long", pattern_));
    return matched;
  }

 private:
  static constexpr int64_t kMaxSteps = 100000;
  static constexpr int kMaxDepth = 600;
  static constexpr size_t kMaxPattern = 1000;
  static constexpr size_t kNowhere = std::string_view::npos;

  static bool is_quantifier(char c) { return c == '*' || c == '+' || c == '?'; }
  static bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

  bool gave_up() const { return steps_ > kMaxSteps; }

  // Where the piece that begins at `p` ends (a sign, an escape, a set or a group), or kNowhere.
  size_t piece_end(size_t p, size_t end) const {
    if (pattern_[p] == '\\') return p + 2 <= end ? p + 2 : kNowhere;
    if (pattern_[p] != '[' && pattern_[p] != '(') return p + 1;
    const bool group = pattern_[p] == '(';
    int open = 0;
    for (size_t i = p; i < end; ++i) {
      if (pattern_[i] == '\\') {
        ++i;
      } else if (group && pattern_[i] == '(') {
        ++open;
      } else if (group ? pattern_[i] == ')' && --open == 0 : pattern_[i] == ']' && i > p + 1) {
        return i + 1;
      }
    }
    return kNowhere;
  }

  // Where the alternatives of a group begin.
  size_t group_begin(size_t p) const { return p + (pattern_.substr(p, 3) == "(?:" ? 3 : 1); }

  bool is_understood(size_t p, size_t end) const {
    bool repeatable = false;  // whether a quantifier may follow
    while (p < end) {
      const char c = pattern_[p];
      if (is_quantifier(c)) {
        if (!repeatable) return false;
        p += p + 1 < end && pattern_[p + 1] == '?' ? 2 : 1;
        repeatable = false;
        continue;
      }
      if (std::string_view("{}])").find(c) != kNowhere) return false;
      const size_t behind = piece_end(p, end);
      if (behind == kNowhere) return false;
      if (c == '(' && !is_understood(group_begin(p), behind - 1)) return false;
      if ((c == '\\' || c == '[') && !escapes_are_understood(p, behind)) return false;
      repeatable = c != '^' && c != '$' && c != '|';
      p = behind;
    }
    return true;
  }

  bool escapes_are_understood(size_t p, size_t end) const {
    for (; p < end; ++p) {
      if (pattern_[p] != '\\') continue;
      const char kind = pattern_[++p];
      if (is_alphanumeric(kind) && kind != 'd' && kind != 'w' && kind != 's') return false;
    }
    return true;
  }

  bool alternatives(size_t p, size_t end, size_t at, const Rest& rest) {
    size_t begin = p;
    for (size_t i = p; i < end; i = piece_end(i, end)) {
      if (pattern_[i] != '|') continue;
      if (sequence(begin, i, at, rest)) return true;
      begin = i + 1;
    }
    return sequence(begin, end, at, rest);
  }

  bool sequence(size_t p, size_t end, size_t at, const Rest& rest) {
    if (!step()) return false;
    if (p == end) return rest(at);
    if (pattern_[p] == '^') return at == 0 && sequence(p + 1, end, at, rest);
    if (pattern_[p] == '$') return at == text_.size() && sequence(p + 1, end, at, rest);
    const size_t behind = piece_end(p, end);
    const char quantifier = behind < end ? pattern_[behind] : '\0';
    ++depth_;
    bool matched;
    if (is_quantifier(quantifier)) {
      const bool lazy = behind + 1 < end && pattern_[behind + 1] == '?';
      const size_t next = behind + (lazy ? 2 : 1);
      const int64_t most = quantifier == '?' ? 1 : INT64_MAX;
      matched = repeat(p, behind, at, quantifier == '+' ? 1 : 0, most,
                       [&](size_t i) { return sequence(next, end, i, rest); });
    } else {
      matched = piece(p, behind, at, [&](size_t i) { return sequence(behind, end, i, rest); });
    }
    --depth_;
    return matched;
  }

  // False where the search is too long or too deep, for good.
  bool step() {
    if (depth_ > kMaxDepth) steps_ = kMaxSteps;
    return ++steps_ <= kMaxSteps;
  }

  // Greedy: whether a match exists does not depend on it.
  bool repeat(size_t p, size_t behind, size_t at, int64_t least, int64_t most, const Rest& rest) {
    if (!step()) return false;
    ++depth_;
    const bool more =
        most > 0 && piece(p, behind, at, [&](size_t i) {
          // One empty match is as good as any number of them.
          if (i == at) return least > 0 && rest(i);
          return repeat(p, behind, i, std::max<int64_t>(least - 1, 0), most - 1, rest);
        });
    --depth_;
    return more || (least == 0 && rest(at));
  }

  bool piece(size_t p, size_t behind, size_t at, const Rest& rest) {
    if (pattern_[p] == '(') return alternatives(group_begin(p), behind - 1, at, rest);
    return at < text_.size() && sign_matches(p, behind, text_[at]) && rest(at + 1);
  }

  bool sign_matches(size_t p, size_t behind, char c) const {
    if (pattern_[p] == '.') return c != '\n';
    if (pattern_[p] == '\\') return escape_matches(pattern_[p + 1], c);
    if (pattern_[p] != '[') return pattern_[p] == c;
    const bool negated = pattern_[p + 1] == '^';
    bool found = false;
    for (size_t i = p + (negated ? 2 : 1); i + 1 < behind; ++i) {
      if (pattern_[i] == '\\') {
        found |= escape_matches(pattern_[++i], c);
      } else if (i + 3 < behind && pattern_[i + 1] == '-') {
        found |= pattern_[i] <= c && c <= pattern_[i + 2];
        i += 2;
      } else {
        found |= pattern_[i] == c;
      }
    }
    return found != negated;
  }

  static bool escape_matches(char kind, char c) {
    if (kind == 'd') return std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (kind == 'w') return is_alphanumeric(c) || c == '_';
    if (kind == 's') return std::isspace(static_cast<unsigned char>(c)) != 0;
    return kind == c;
  }

  std::string_view pattern_;
  std::string_view text_;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

bool names_module(std::string_view name, std::string_view module) {
  if (name.empty()) return false;
  for (size_t at = module.find(name); at != std::string_view::npos;
       at = module.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || module[at - 1] == '.';
    if (begins && (end == module.size() || module[end] == '.')) return true;
  }
  return false;
}

bool name_any_module(std::span<const std::string> names, std::string_view module) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return names_module(name, module); });
}

Result<bool> matches_pattern(std::string_view pattern, std::string_view text) {
  return Matcher(pattern, text).run();
}

}  // namespace octavo::quant
