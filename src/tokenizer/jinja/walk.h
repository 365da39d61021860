// Walks over the syntax tree: for_each_child calls a function with each direct child of an
// expression in the order in which they are written, for_each_name with each name in an expression.
#pragma once

#include <string_view>

#include "tokenizer/jinja/ast.h"

namespace octavo::tokenizer::jinja {

template <typename Fn>
void for_each_argument(Arguments& arguments, Fn&& fn) {
  for (ExprPtr& argument : arguments.positional) fn(*argument);
  for (auto& [name, argument] : arguments.keyword) fn(*argument);
  if (arguments.star) fn(*arguments.star);
  if (arguments.star_star) fn(*arguments.star_star);
}

template <typename Fn>
void for_each_child(Expr& e, Fn&& fn) {
  const auto visit = [&fn](ExprPtr& child) {
    if (child) fn(*child);
  };
  switch (e.kind) {
    case ExprKind::kConst:
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      break;
    case ExprKind::kTuple:
    case ExprKind::kList:
    case ExprKind::kDict:
    case ExprKind::kConcat:
      for (ExprPtr& item : as<ItemsExpr>(e).items) fn(*item);
      break;
    case ExprKind::kUnary:
      visit(as<UnaryExpr>(e).operand);
      break;
    case ExprKind::kBinary:
      visit(as<BinaryExpr>(e).left);
      visit(as<BinaryExpr>(e).right);
      break;
    case ExprKind::kLogic:
      visit(as<LogicExpr>(e).left);
      visit(as<LogicExpr>(e).right);
      break;
    case ExprKind::kCompare:
      visit(as<CompareExpr>(e).first);
      for (auto& [op, operand] : as<CompareExpr>(e).rest) fn(*operand);
      break;
    case ExprKind::kConditional:
      visit(as<ConditionalExpr>(e).test);
      visit(as<ConditionalExpr>(e).if_true);
      visit(as<ConditionalExpr>(e).if_false);
      break;
    case ExprKind::kAttribute:
      visit(as<AttributeExpr>(e).object);
      break;
    case ExprKind::kItem:
      visit(as<ItemExpr>(e).object);
      visit(as<ItemExpr>(e).index);
      break;
    case ExprKind::kSlice:
      visit(as<SliceExpr>(e).object);
      visit(as<SliceExpr>(e).start);
      visit(as<SliceExpr>(e).stop);
      visit(as<SliceExpr>(e).step);
      break;
    case ExprKind::kCall:
      visit(as<CallExpr>(e).callee);
      for_each_argument(as<CallExpr>(e).arguments, fn);
      break;
    case ExprKind::kFilter:
      visit(as<FilterExpr>(e).input);
      for_each_argument(as<FilterExpr>(e).arguments, fn);
      break;
    case ExprKind::kTest:
      visit(as<TestExpr>(e).input);
      for_each_argument(as<TestExpr>(e).arguments, fn);
      break;
  }
}

template <typename Fn>
void for_each_name(Expr& e, Fn&& fn) {
  if (e.kind == ExprKind::kName) fn(as<NameExpr>(e).name);
  if (e.kind == ExprKind::kNamespaceRef) fn(as<NamespaceRefExpr>(e).name);
  for_each_child(e, [&fn](Expr& child) { for_each_name(child, fn); });
}

// Whether a body reads a name that is special to it, anywhere below: nested scopes count, and so
// do reads before the name is declared again.
bool uses_name(Body& body, std::string_view name);

}  // namespace octavo::tokenizer::jinja
