// What follows a primary expression: attributes, subscripts, calls, filters and tests; and the
// helpers that all of the parser uses.
#include <algorithm>

#include "base/format.h"
#include "tokenizer/jinja/parser.h"
#include "tokenizer/jinja/source.h"

namespace octavo::tokenizer::jinja {
namespace {

std::string_view describe(const Token& token) {
  return token.kind == TokenKind::kEnd ? "the end of the template" : token.text;
}

}  // namespace

bool ExpressionParser::skip_op(std::string_view op) {
  if (!at_op(op)) return false;
  advance();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  advance();
  return true;
}

Status ExpressionParser::fail(size_t offset, std::string_view message) const {
  return invalid_argument(locate_message(source_, offset, message));
}

Status ExpressionParser::unexpected(std::string_view wanted) const {
  return fail(current().offset, format("expected {}, got '{}'", wanted, describe(current())));
}

Status ExpressionParser::expect_op(std::string_view op) {
  return skip_op(op) ? Status() : unexpected(format("'{}'", op));
}

Status ExpressionParser::expect_name(std::string_view name) {
  return skip_name(name) ? Status() : unexpected(format("'{}'", name));
}

Status ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return unexpected(what);
  advance();
  return {};
}

Result<const Str*> ExpressionParser::take_name() {
  if (current().kind != TokenKind::kName) return unexpected("a name");
  return heap_.borrow(advance().text);
}

Status ExpressionParser::check_depth() const {
  if (depth_ <= kMaxParseDepth) return {};
  return fail(current().offset, "the template is nested too deeply");
}

Result<ExprPtr> ExpressionParser::finish(ExprPtr node,
                                         std::span<const Expr* const> children) const {
  uint16_t below = 0;
  for (const Expr* child : children) {
    if (child != nullptr) below = std::max(below, child->depth);
  }
  node->depth = static_cast<uint16_t>(below + 1);
  if (node->depth <= kMaxParseDepth) return node;
  return fail(node->offset, "the expression is nested too deeply");
}

Result<ExprPtr> ExpressionParser::finish_items(std::unique_ptr<ItemsExpr> node) const {
  std::vector<const Expr*> children;
  for (const ExprPtr& item : node->items) children.push_back(item.get());
  return finish(std::move(node), children);
}

Result<ExprPtr> ExpressionParser::finish_call(ExprPtr node, const Expr* head,
                                              const Arguments& arguments) const {
  std::vector<const Expr*> children = {head, arguments.star.get(), arguments.star_star.get()};
  for (const ExprPtr& argument : arguments.positional) children.push_back(argument.get());
  for (const auto& [name, argument] : arguments.keyword) children.push_back(argument.get());
  return finish(std::move(node), children);
}

Result<ExprPtr> ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (at_op(".")) {
      node = OCTAVO_TRY(parse_attribute(std::move(node)));
    } else if (at_op("[")) {
      node = OCTAVO_TRY(parse_subscript(std::move(node)));
    } else if (at_op("(")) {
      node = OCTAVO_TRY(parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::parse_filter_expression(ExprPtr node) {
  while (true) {
    if (at_op("|")) {
      node = OCTAVO_TRY(parse_filters(std::move(node), false));
    } else if (at_name("is")) {
      node = OCTAVO_TRY(parse_test(std::move(node)));
    } else if (at_op("(")) {
      node = OCTAVO_TRY(parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::parse_attribute(ExprPtr object) {
  const size_t offset = advance().offset;
  if (current().kind == TokenKind::kInteger) {
    auto node = make<ItemExpr>(offset);
    node->object = std::move(object);
    node->index = OCTAVO_TRY(parse_number());
    const std::vector<const Expr*> children = {node->object.get()};
    return finish(std::move(node), children);
  }
  auto node = make<AttributeExpr>(offset);
  node->object = std::move(object);
  node->name = OCTAVO_TRY(take_name());
  const std::vector<const Expr*> children = {node->object.get()};
  return finish(std::move(node), children);
}

// `[index]`, `[a, b]` (a tuple as the index) or `[start:stop:step]`.
Result<ExprPtr> ExpressionParser::parse_subscript(ExprPtr object) {
  const size_t offset = advance().offset;
  if (at_op(":")) return parse_slice(std::move(object), nullptr, offset);
  auto items = make<ItemsExpr>(offset, ExprKind::kTuple);
  while (!at_op("]")) {
    if (!items->items.empty()) OCTAVO_TRY(expect_op(","));
    items->items.push_back(OCTAVO_TRY(parse_expression()));
    if (items->items.size() == 1 && at_op(":")) {
      return parse_slice(std::move(object), std::move(items->items[0]), offset);
    }
  }
  OCTAVO_TRY(expect_op("]"));
  auto node = make<ItemExpr>(offset);
  node->object = std::move(object);
  node->index = items->items.size() == 1 ? std::move(items->items[0])
                                         : OCTAVO_TRY(finish_items(std::move(items)));
  const std::vector<const Expr*> children = {node->object.get(), node->index.get()};
  return finish(std::move(node), children);
}

Result<ExprPtr> ExpressionParser::parse_slice(ExprPtr object, ExprPtr start, size_t offset) {
  auto node = make<SliceExpr>(offset);
  node->object = std::move(object);
  node->start = std::move(start);
  OCTAVO_TRY(expect_op(":"));
  if (!at_op(":") && !at_op("]")) node->stop = OCTAVO_TRY(parse_expression());
  if (skip_op(":") && !at_op("]")) node->step = OCTAVO_TRY(parse_expression());
  OCTAVO_TRY(expect_op("]"));
  const std::vector<const Expr*> children = {node->object.get(), node->start.get(),
                                             node->stop.get(), node->step.get()};
  return finish(std::move(node), children);
}

Result<ExprPtr> ExpressionParser::parse_call(ExprPtr callee) {
  auto node = make<CallExpr>(current().offset);
  node->callee = std::move(callee);
  OCTAVO_TRY(parse_arguments(node->arguments));
  const Arguments& arguments = node->arguments;
  const Expr* head = node->callee.get();
  return finish_call(std::move(node), head, arguments);
}

Status ExpressionParser::parse_arguments(Arguments& arguments) {
  const size_t offset = current().offset;
  OCTAVO_TRY(expect_op("("));
  bool first = true;
  while (!at_op(")")) {
    if (!first) {
      OCTAVO_TRY(expect_op(","));
      if (at_op(")")) break;
    }
    first = false;
    OCTAVO_TRY(parse_argument(arguments, offset));
  }
  return expect_op(")");
}

Status ExpressionParser::parse_argument(Arguments& arguments, size_t offset) {
  constexpr std::string_view kOrder = "the arguments of this call are in a wrong order";
  if (at_op("*")) {
    if (arguments.star || arguments.star_star) return fail(offset, kOrder);
    advance();
    arguments.star = OCTAVO_TRY(parse_expression());
    return {};
  }
  if (at_op("**")) {
    if (arguments.star_star) return fail(offset, kOrder);
    advance();
    arguments.star_star = OCTAVO_TRY(parse_expression());
    return {};
  }
  const bool named = current().kind == TokenKind::kName &&
                     following().kind == TokenKind::kOperator && following().text == "=";
  if (named) {
    if (arguments.star_star) return fail(offset, kOrder);
    const Str* name = OCTAVO_TRY(take_name());
    for (const auto& [other, value] : arguments.keyword) {
      if (other->text == name->text) {
        return fail(offset, format("the argument '{}' is given twice", name->text));
      }
    }
    advance();
    arguments.keyword.emplace_back(name, OCTAVO_TRY(parse_expression()));
    return {};
  }
  if (arguments.star || arguments.star_star || !arguments.keyword.empty()) {
    return fail(offset, kOrder);
  }
  arguments.positional.push_back(OCTAVO_TRY(parse_expression()));
  return {};
}

Result<ExprPtr> ExpressionParser::parse_filters(ExprPtr input, bool inline_first) {
  ExprPtr value = std::move(input);
  while (inline_first || skip_op("|")) {
    inline_first = false;
    auto node = make<FilterExpr>(current().offset);
    node->input = std::move(value);
    node->name = OCTAVO_TRY(take_name());
    node->fn = find_filter(node->name->text);
    if (at_op("(")) OCTAVO_TRY(parse_arguments(node->arguments));
    const Arguments& arguments = node->arguments;
    const Expr* head = node->input.get();
    value = OCTAVO_TRY(finish_call(std::move(node), head, arguments));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::parse_test(ExprPtr input) {
  const size_t offset = advance().offset;
  const bool negated = skip_name("not");
  auto node = make<TestExpr>(offset);
  node->input = std::move(input);
  node->name = OCTAVO_TRY(take_name());
  node->fn = find_test(node->name->text);
  const TokenKind kind = current().kind;
  const bool ends_test = at_name("else") || at_name("or") || at_name("and");
  if (at_op("(")) {
    OCTAVO_TRY(parse_arguments(node->arguments));
  } else if ((kind == TokenKind::kName && !ends_test) || kind == TokenKind::kString ||
             kind == TokenKind::kInteger || kind == TokenKind::kFloat || at_op("[") || at_op("{")) {
    if (at_name("is")) return fail(current().offset, "tests cannot be chained with 'is'");
    ExprPtr argument = OCTAVO_TRY(parse_primary(false));
    node->arguments.positional.push_back(OCTAVO_TRY(parse_postfix(std::move(argument))));
  }
  const Arguments& arguments = node->arguments;
  const Expr* head = node->input.get();
  ExprPtr test = OCTAVO_TRY(finish_call(std::move(node), head, arguments));
  if (!negated) return test;
  auto negation = make<UnaryExpr>(offset);
  negation->op = UnaryOp::kNot;
  negation->operand = std::move(test);
  const std::vector<const Expr*> children = {negation->operand.get()};
  return finish(std::move(negation), children);
}

}  // namespace octavo::tokenizer::jinja
