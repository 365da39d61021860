#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "tokenizer/jinja/decimal.h"
#include "tokenizer/jinja/parser.h"

namespace octavo::tokenizer::jinja {
namespace {

struct BinaryToken {
  std::string_view text;
  BinaryOp op;
};
constexpr BinaryToken kSums[] = {{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSub}};
constexpr BinaryToken kProducts[] = {{"*", BinaryOp::kMul},
                                     {"/", BinaryOp::kDiv},
                                     {"//", BinaryOp::kFloorDiv},
                                     {"%", BinaryOp::kMod}};

const BinaryToken* find_op(std::span<const BinaryToken> table, const Token& token) {
  if (token.kind != TokenKind::kOperator) return nullptr;
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&token](const BinaryToken& t) { return t.text == token.text; });
  return found == table.end() ? nullptr : &*found;
}

bool is_reserved(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

}  // namespace

Result<ExprPtr> ExpressionParser::parse_expression(Conditional conditional) {
  return conditional == Conditional::kAllowed ? parse_conditional() : parse_or();
}

Result<ExprPtr> ExpressionParser::parse_conditional() {
  const size_t offset = current().offset;
  ExprPtr value = OCTAVO_TRY(parse_or());
  while (skip_name("if")) {
    auto node = make<ConditionalExpr>(offset);
    node->if_true = std::move(value);
    node->test = OCTAVO_TRY(parse_or());
    if (skip_name("else")) {
      const DepthGuard guard(depth_);
      OCTAVO_TRY(check_depth());
      node->if_false = OCTAVO_TRY(parse_conditional());
    }
    const std::vector<const Expr*> children = {node->test.get(), node->if_true.get(),
                                               node->if_false.get()};
    value = OCTAVO_TRY(finish(std::move(node), children));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::parse_or() {
  const size_t offset = current().offset;
  ExprPtr left = OCTAVO_TRY(parse_and());
  while (skip_name("or")) {
    auto node = make<LogicExpr>(offset);
    node->left = std::move(left);
    node->right = OCTAVO_TRY(parse_and());
    const std::vector<const Expr*> children = {node->left.get(), node->right.get()};
    left = OCTAVO_TRY(finish(std::move(node), children));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_and() {
  const size_t offset = current().offset;
  ExprPtr left = OCTAVO_TRY(parse_not());
  while (skip_name("and")) {
    auto node = make<LogicExpr>(offset);
    node->is_and = true;
    node->left = std::move(left);
    node->right = OCTAVO_TRY(parse_not());
    const std::vector<const Expr*> children = {node->left.get(), node->right.get()};
    left = OCTAVO_TRY(finish(std::move(node), children));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_not() {
  const size_t offset = current().offset;
  if (!skip_name("not")) return parse_compare();
  const DepthGuard guard(depth_);
  OCTAVO_TRY(check_depth());
  auto node = make<UnaryExpr>(offset);
  node->op = UnaryOp::kNot;
  node->operand = OCTAVO_TRY(parse_not());
  const std::vector<const Expr*> children = {node->operand.get()};
  return finish(std::move(node), children);
}

bool ExpressionParser::take_compare_op(CompareOp& op) {
  struct Entry {
    std::string_view text;
    CompareOp op;
  };
  constexpr Entry kTable[] = {{"==", CompareOp::kEq}, {"!=", CompareOp::kNe},
                              {"<", CompareOp::kLt},  {"<=", CompareOp::kLe},
                              {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  for (const Entry& entry : kTable) {
    if (!skip_op(entry.text)) continue;
    op = entry.op;
    return true;
  }
  if (skip_name("in")) {
    op = CompareOp::kIn;
    return true;
  }
  const bool not_in =
      at_name("not") && following().kind == TokenKind::kName && following().text == "in";
  if (!not_in) return false;
  advance();
  advance();
  op = CompareOp::kNotIn;
  return true;
}

Result<ExprPtr> ExpressionParser::parse_compare() {
  const size_t offset = current().offset;
  ExprPtr first = OCTAVO_TRY(parse_sum());
  CompareOp op{};
  if (!take_compare_op(op)) return first;
  auto node = make<CompareExpr>(offset);
  std::vector<const Expr*> children = {first.get()};
  node->first = std::move(first);
  do {
    ExprPtr operand = OCTAVO_TRY(parse_sum());
    children.push_back(operand.get());
    node->rest.emplace_back(op, std::move(operand));
  } while (take_compare_op(op));
  return finish(std::move(node), children);
}

Result<ExprPtr> ExpressionParser::parse_binary(ExprPtr left, BinaryOp op, Result<ExprPtr> right,
                                               size_t offset) {
  auto node = make<BinaryExpr>(offset);
  node->op = op;
  node->left = std::move(left);
  node->right = OCTAVO_TRY(std::move(right));
  const std::vector<const Expr*> children = {node->left.get(), node->right.get()};
  return finish(std::move(node), children);
}

Result<ExprPtr> ExpressionParser::parse_sum() {
  ExprPtr left = OCTAVO_TRY(parse_concat());
  while (const BinaryToken* found = find_op(kSums, current())) {
    const size_t offset = advance().offset;
    left = OCTAVO_TRY(parse_binary(std::move(left), found->op, parse_concat(), offset));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_concat() {
  const size_t offset = current().offset;
  ExprPtr first = OCTAVO_TRY(parse_product());
  if (!at_op("~")) return first;
  auto node = make<ItemsExpr>(offset, ExprKind::kConcat);
  node->items.push_back(std::move(first));
  while (skip_op("~")) node->items.push_back(OCTAVO_TRY(parse_product()));
  return finish_items(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_product() {
  ExprPtr left = OCTAVO_TRY(parse_power());
  while (const BinaryToken* found = find_op(kProducts, current())) {
    const size_t offset = advance().offset;
    left = OCTAVO_TRY(parse_binary(std::move(left), found->op, parse_power(), offset));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_power() {
  ExprPtr left = OCTAVO_TRY(parse_unary(true));
  while (at_op("**")) {
    const size_t offset = advance().offset;
    left = OCTAVO_TRY(parse_binary(std::move(left), BinaryOp::kPow, parse_unary(true), offset));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_unary(bool with_filter) {
  const DepthGuard guard(depth_);
  OCTAVO_TRY(check_depth());
  ExprPtr node;
  if (at_op("-") || at_op("+")) {
    auto unary = make<UnaryExpr>(current().offset);
    unary->op = advance().text == "-" ? UnaryOp::kNegate : UnaryOp::kPlus;
    unary->operand = OCTAVO_TRY(parse_unary(false));
    const std::vector<const Expr*> children = {unary->operand.get()};
    node = OCTAVO_TRY(finish(std::move(unary), children));
  } else {
    node = OCTAVO_TRY(parse_primary(false));
  }
  node = OCTAVO_TRY(parse_postfix(std::move(node)));
  return with_filter ? parse_filter_expression(std::move(node)) : Result<ExprPtr>(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_primary(bool namespaces) {
  switch (current().kind) {
    case TokenKind::kName:
      return parse_name(namespaces);
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_number();
    default:
      break;
  }
  if (at_op("[")) return parse_list();
  if (at_op("{")) return parse_dict();
  if (!skip_op("(")) return unexpected("an expression");
  TupleRules rules;
  rules.parenthesised = true;
  ExprPtr inner = OCTAVO_TRY(parse_tuple(rules));
  OCTAVO_TRY(expect_op(")"));
  return inner;
}

Result<ExprPtr> ExpressionParser::parse_name(bool namespaces) {
  const Token& token = advance();
  const std::string_view text = token.text;
  if (is_reserved(text)) {
    auto node = make<ConstExpr>(token.offset);
    node->value = text[0] == 'n' || text[0] == 'N'
                      ? Value::none()
                      : Value::boolean(text[0] == 't' || text[0] == 'T');
    return ExprPtr(std::move(node));
  }
  if (namespaces && skip_op(".")) {
    auto node = make<NamespaceRefExpr>(token.offset);
    node->name = heap_.borrow(text);
    node->attribute = OCTAVO_TRY(take_name());
    return ExprPtr(std::move(node));
  }
  auto node = make<NameExpr>(token.offset);
  node->name = heap_.borrow(text);
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_number() {
  const Token& token = advance();
  std::string digits(token.text);
  std::erase(digits, '_');
  auto node = make<ConstExpr>(token.offset);
  if (token.kind == TokenKind::kFloat) {
    node->value = Value::real(parse_decimal(digits));
    return ExprPtr(std::move(node));
  }
  const char prefix = digits.size() > 1 ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  const char* begin = digits.data() + (base == 10 ? 0 : 2);
  int64_t value = 0;
  const auto parsed = std::from_chars(begin, digits.data() + digits.size(), value, base);
  if (parsed.ec == std::errc()) {
    node->value = Value::integer(value);
  } else if (base == 10) {
    node->value = Value::big_int(heap_.str(digits));
  } else {
    return fail(token.offset, "the number is too large");
  }
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_string() {
  const size_t offset = current().offset;
  std::string text;
  while (current().kind == TokenKind::kString) text += advance().value;
  auto node = make<ConstExpr>(offset);
  node->value = Value::of(heap_.str(text));
  return ExprPtr(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_list() {
  auto node = make<ItemsExpr>(advance().offset, ExprKind::kList);
  while (!at_op("]")) {
    if (!node->items.empty()) OCTAVO_TRY(expect_op(","));
    if (at_op("]")) break;
    node->items.push_back(OCTAVO_TRY(parse_expression()));
  }
  OCTAVO_TRY(expect_op("]"));
  return finish_items(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_dict() {
  auto node = make<ItemsExpr>(advance().offset, ExprKind::kDict);
  while (!at_op("}")) {
    if (!node->items.empty()) OCTAVO_TRY(expect_op(","));
    if (at_op("}")) break;
    node->items.push_back(OCTAVO_TRY(parse_expression()));
    OCTAVO_TRY(expect_op(":"));
    node->items.push_back(OCTAVO_TRY(parse_expression()));
  }
  OCTAVO_TRY(expect_op("}"));
  return finish_items(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_tuple(const TupleRules& rules) {
  const size_t offset = current().offset;
  auto node = make<ItemsExpr>(offset, ExprKind::kTuple);
  bool is_tuple = false;
  while (true) {
    if (!node->items.empty()) OCTAVO_TRY(expect_op(","));
    const TokenKind kind = current().kind;
    const bool ended = kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd ||
                       at_op(")") || (!rules.end_name.empty() && at_name(rules.end_name));
    if (ended) break;
    node->items.push_back(OCTAVO_TRY(rules.target ? parse_primary(rules.namespaces)
                                                  : parse_expression(rules.conditional)));
    if (!at_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !node->items.empty()) return std::move(node->items[0]);
  if (!is_tuple && !rules.parenthesised) return unexpected("an expression");
  return finish_items(std::move(node));
}

Status ExpressionParser::check_target(const Expr& target) const {
  if (target.kind == ExprKind::kName || target.kind == ExprKind::kNamespaceRef) return {};
  if (target.kind != ExprKind::kTuple) return fail(target.offset, "this cannot be assigned to");
  for (const ExprPtr& item : as<ItemsExpr>(target).items) OCTAVO_TRY(check_target(*item));
  return {};
}

Result<ExprPtr> ExpressionParser::parse_target(std::string_view end_name, bool namespaces) {
  TupleRules rules;
  rules.end_name = end_name;
  rules.target = true;
  rules.namespaces = namespaces;
  ExprPtr target = OCTAVO_TRY(parse_tuple(rules));
  OCTAVO_TRY(check_target(*target));
  return target;
}

}  // namespace octavo::tokenizer::jinja
