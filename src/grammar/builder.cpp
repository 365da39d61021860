#include "grammar/builder.h"

#include "base/check.h"
#include "grammar/emitter.h"
#include "grammar/rule_check.h"

namespace octavo::grammar {
namespace {

constexpr size_t kMaxRuleNameBytes = 256;

}  // namespace

ExprId Builder::add(Expr expr) {
  if (full()) return 0;
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId Builder::literals(std::vector<std::string> texts) {
  Expr expr;
  expr.kind = ExprKind::kLiterals;
  expr.literals = std::move(texts);
  return add(std::move(expr));
}

ExprId Builder::chars(CharSet set) {
  Expr expr;
  expr.kind = ExprKind::kChars;
  expr.chars = std::move(set);
  return add(std::move(expr));
}

ExprId Builder::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  Expr expr;
  expr.kind = ExprKind::kSequence;
  expr.parts = std::move(parts);
  return add(std::move(expr));
}

ExprId Builder::alternatives(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  if (parts.empty()) return literals({});
  Expr expr;
  expr.kind = ExprKind::kAlternatives;
  expr.parts = std::move(parts);
  return add(std::move(expr));
}

ExprId Builder::repeat(ExprId part, uint32_t min, uint32_t max) {
  if (min == 1 && max == 1) return part;
  Expr expr;
  expr.kind = ExprKind::kRepeat;
  expr.parts = {part};
  expr.min = min;
  expr.max = max;
  return add(std::move(expr));
}

ExprId Builder::call(RuleId rule) {
  Expr expr;
  expr.kind = ExprKind::kRule;
  expr.rule = rule;
  return add(std::move(expr));
}

RuleId Builder::add_rule(std::string name) {
  if (name.size() > kMaxRuleNameBytes) name.resize(kMaxRuleNameBytes);
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Builder::define(RuleId rule, ExprId expr) {
  rules_[rule].expr = expr;
  rules_[rule].defined = true;
}

ExprId Builder::add_and_call(std::string name, ExprId expr) {
  const RuleId rule = add_rule(std::move(name));
  define(rule, expr);
  return call(rule);
}

Result<Automaton> Builder::build(RuleId root) const {
  if (full()) return invalid_argument("the grammar is too large");
  const std::vector<char> nullable = OCTAVO_TRY(check_rules(exprs_, rules_));
  return Emitter(exprs_, rules_, nullable).emit_all(root);
}

}  // namespace octavo::grammar
