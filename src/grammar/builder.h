// Builder: grammars as the front ends make them: expressions and rules that refer to each other.
// build() checks them and makes an automaton.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/char_set.h"
#include "octavo/status.h"

namespace octavo::grammar {

// Of the expressions of a grammar, some 100 MB. An automaton takes far fewer.
inline constexpr size_t kMaxExprs = 1'000'000;

// Of groups in a text that is parsed.
inline constexpr int kMaxNesting = 128;

// Far above what fits into a context.
inline constexpr uint32_t kMaxCount = 1'000'000;

using ExprId = uint32_t;
using RuleId = uint32_t;

enum class ExprKind : uint8_t { kLiterals, kChars, kSequence, kAlternatives, kRepeat, kRule };

struct Expr {
  ExprKind kind = ExprKind::kSequence;
  std::vector<std::string> literals;  // one of these
  CharSet chars;                      // one of these
  std::vector<ExprId> parts;          // kRepeat: one
  uint32_t min = 0;                   // of kRepeat
  uint32_t max = kUnlimited;
  RuleId rule = 0;  // of kRule
};

struct Rule {
  std::string name;  // for errors; may be cut
  ExprId expr = 0;
  bool defined = false;
};

class Builder {
 public:
  ExprId empty() { return sequence({}); }
  ExprId literal(std::string text) { return literals({std::move(text)}); }
  ExprId literals(std::vector<std::string> texts);  // none: nothing matches
  ExprId chars(CharSet set);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId alternatives(std::vector<ExprId> parts);  // none: nothing matches
  ExprId repeat(ExprId part, uint32_t min, uint32_t max);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId call(RuleId rule);

  RuleId add_rule(std::string name);
  void define(RuleId rule, ExprId expr);
  ExprId add_and_call(std::string name, ExprId expr);

  const std::vector<Expr>& exprs() const { return exprs_; }
  const std::vector<Rule>& rules() const { return rules_; }

  // Nothing is added any more, and build() is an error.
  bool full() const { return exprs_.size() >= kMaxExprs; }

  // An error where a rule is not defined, cannot end or begins with itself, or where all is too
  // large.
  Result<Automaton> build(RuleId root) const;

 private:
  ExprId add(Expr expr);

  std::vector<Expr> exprs_;
  std::vector<Rule> rules_;
};

}  // namespace octavo::grammar
