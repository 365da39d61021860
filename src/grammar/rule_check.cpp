#include "grammar/rule_check.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"

namespace octavo::grammar {
namespace {

// Rules in an order that takes more passes than this over so many expressions are no schema's.
constexpr uint64_t kMaxVisits = 50'000'000;

// Whether an expression has a property that follows from those of its parts: `leaf` of an
// expression without parts, all parts of a sequence, any of alternatives.
template <typename Leaf>
bool follows(const Expr& expr, const std::vector<Rule>& rules, const std::vector<char>& known,
             Leaf leaf) {
  const auto has = [&](ExprId id) { return known[id] != 0; };
  switch (expr.kind) {
    case ExprKind::kLiterals:
    case ExprKind::kChars:
      return leaf(expr);
    case ExprKind::kSequence:
      return std::all_of(expr.parts.begin(), expr.parts.end(), has);
    case ExprKind::kAlternatives:
      return std::any_of(expr.parts.begin(), expr.parts.end(), has);
    case ExprKind::kRepeat:
      return expr.min == 0 || has(expr.parts[0]);
    case ExprKind::kRule:
      return has(rules[expr.rule].expr);
  }
  return false;
}

// The least solution, by expression. Parts come before the whole, rules after their use as often as
// before: passes go up only, until nothing changes.
template <typename Leaf>
Result<std::vector<char>> solve(const std::vector<Expr>& exprs, const std::vector<Rule>& rules,
                                Leaf leaf) {
  std::vector<char> known(exprs.size());
  uint64_t visits = 0;
  for (bool changed = true, up = true; changed; up = !up) {
    changed = false;
    visits += exprs.size();
    if (visits > kMaxVisits) return invalid_argument("the grammar is too complex");
    for (size_t i = 0; i < exprs.size(); ++i) {
      const size_t id = up ? i : exprs.size() - 1 - i;
      if (known[id] != 0 || !follows(exprs[id], rules, known, leaf)) continue;
      known[id] = 1;
      changed = true;
    }
  }
  return known;
}

bool has_empty(const Expr& expr) {
  const auto& texts = expr.literals;
  return std::any_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); });
}

bool can_match(const Expr& expr) {
  return expr.kind == ExprKind::kChars ? !expr.chars.empty() : !expr.literals.empty();
}

// Whether the graph "an expression begins with an expression" has a cycle: of each expression that
// nothing unvisited leads to, what it leads to loses an edge. What is left lies on cycles.
Status check_left_recursion(const std::vector<Expr>& exprs, const std::vector<Rule>& rules,
                            const std::vector<char>& nullable) {
  std::vector<uint32_t> num_leading(exprs.size());
  const auto for_each_first = [&](ExprId id, auto visit) {
    const Expr& expr = exprs[id];
    if (expr.kind == ExprKind::kRule) visit(rules[expr.rule].expr);
    for (const ExprId part : expr.parts) {
      visit(part);
      if (expr.kind == ExprKind::kSequence && nullable[part] == 0) break;
    }
  };
  for (ExprId id = 0; id < exprs.size(); ++id) {
    for_each_first(id, [&](ExprId first) { ++num_leading[first]; });
  }
  std::vector<ExprId> free;
  for (ExprId id = 0; id < exprs.size(); ++id) {
    if (num_leading[id] == 0) free.push_back(id);
  }
  for (size_t i = 0; i < free.size(); ++i) {
    for_each_first(free[i], [&](ExprId first) {
      if (--num_leading[first] == 0) free.push_back(first);
    });
  }
  if (free.size() == exprs.size()) return {};
  for (const Rule& rule : rules) {
    if (num_leading[rule.expr] == 0) continue;
    return invalid_argument(format("{} begins with itself (left recursion)", printable(rule.name)));
  }
  return internal_error("left recursion without a rule");
}

}  // namespace

Result<std::vector<char>> check_rules(const std::vector<Expr>& exprs,
                                      const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    if (!rule.defined) {
      return invalid_argument(format("{} is not defined", printable(rule.name)));
    }
  }
  const std::vector<char> ends = OCTAVO_TRY(solve(exprs, rules, can_match));
  for (const Rule& rule : rules) {
    if (ends[rule.expr] != 0) continue;
    return invalid_argument(format("no text can match {}", printable(rule.name)));
  }
  std::vector<char> nullable = OCTAVO_TRY(solve(exprs, rules, has_empty));
  OCTAVO_TRY(check_left_recursion(exprs, rules, nullable));
  return nullable;
}

}  // namespace octavo::grammar
