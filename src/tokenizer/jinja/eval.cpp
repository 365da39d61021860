// Expressions.
#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/select.h"

namespace octavo::tokenizer::jinja {

Result<Value> Interpreter::eval(const Expr& e) {
  if (e.kind == ExprKind::kConst) return as<ConstExpr>(e).value;
  ++nesting_;
  Result<Value> value = [&]() -> Result<Value> {
    OCTAVO_TRY(charge(1));
    if (nesting_ > kMaxNesting) return invalid_argument("the template is nested too deeply");
    return eval_node(e);
  }();
  --nesting_;
  if (!value.ok()) return locate(e.offset, value.status());
  return value;
}

Result<Value> Interpreter::eval_node(const Expr& e) {
  switch (e.kind) {
    case ExprKind::kConst:
      return as<ConstExpr>(e).value;
    case ExprKind::kName:
      return eval_name(as<NameExpr>(e));
    case ExprKind::kTuple:
    case ExprKind::kList:
      return eval_items(as<ItemsExpr>(e));
    case ExprKind::kDict:
      return eval_dict(as<ItemsExpr>(e));
    case ExprKind::kUnary:
      return eval_unary(as<UnaryExpr>(e));
    case ExprKind::kBinary:
      return eval_binary(as<BinaryExpr>(e));
    case ExprKind::kLogic:
      return eval_logic(as<LogicExpr>(e));
    case ExprKind::kConcat:
      return eval_concat(as<ItemsExpr>(e));
    case ExprKind::kCompare:
      return eval_compare(as<CompareExpr>(e));
    case ExprKind::kConditional:
      return eval_conditional(as<ConditionalExpr>(e));
    case ExprKind::kAttribute:
      return get_attribute(OCTAVO_TRY(eval(*as<AttributeExpr>(e).object)),
                           *as<AttributeExpr>(e).name);
    case ExprKind::kItem:
      return eval_item(as<ItemExpr>(e));
    case ExprKind::kSlice:
      return eval_slice(as<SliceExpr>(e));
    case ExprKind::kCall:
      return eval_call(as<CallExpr>(e));
    case ExprKind::kFilter:
      return eval_filter(as<FilterExpr>(e));
    case ExprKind::kTest:
      return eval_test(as<TestExpr>(e));
    case ExprKind::kNamespaceRef:
      break;  // only a target of assignments
  }
  return internal_error("an expression cannot be evaluated");
}

Result<Value> Interpreter::eval_name(const NameExpr& e) {
  const Value value = activation_->at(e.ref);
  if (!value.missing()) return value;
  return Value::of(
      heap().make<Undefined>(std::string_view(), std::string_view(), Value::of(e.name)));
}

Result<Value> Interpreter::eval_items(const ItemsExpr& e) {
  std::vector<Value> items;
  items.reserve(e.items.size());
  for (const ExprPtr& item : e.items) items.push_back(OCTAVO_TRY(eval(*item)));
  return e.kind == ExprKind::kTuple ? heap().tuple(items) : heap().list(items);
}

Result<Value> Interpreter::eval_dict(const ItemsExpr& e) {
  Dict* dict = heap().dict();
  for (size_t i = 0; i < e.items.size(); i += 2) {
    const Value key = OCTAVO_TRY(eval(*e.items[i]));
    const Value value = OCTAVO_TRY(eval(*e.items[i + 1]));
    if (!hashable(key)) {
      return invalid_argument(format("a key of type '{}' is not hashable", type_name(key)));
    }
    dict->set(key, value);
  }
  return make_dict(dict);
}

Result<Value> Interpreter::eval_concat(const ItemsExpr& e) {
  std::vector<Value> parts;
  parts.reserve(e.items.size());
  for (const ExprPtr& item : e.items) parts.push_back(OCTAVO_TRY(eval(*item)));
  TextBuilder out;
  for (const Value& part : parts) {
    out.append(*OCTAVO_TRY(to_text(part)));
    OCTAVO_TRY(check_text(out.size()));
  }
  return make_text(out);
}

Result<Value> Interpreter::eval_unary(const UnaryExpr& e) {
  const Value operand = OCTAVO_TRY(eval(*e.operand));
  if (e.op == UnaryOp::kNot) return Value::boolean(!truthy(operand));
  return unary(e.op == UnaryOp::kNegate, operand);
}

Result<Value> Interpreter::eval_binary(const BinaryExpr& e) {
  const Value left = OCTAVO_TRY(eval(*e.left));
  const Value right = OCTAVO_TRY(eval(*e.right));
  switch (e.op) {
    case BinaryOp::kAdd:
      return add(left, right);
    case BinaryOp::kSub:
      return subtract(left, right);
    case BinaryOp::kMul:
      return multiply(left, right);
    case BinaryOp::kDiv:
      return divide(left, right);
    case BinaryOp::kFloorDiv:
      return floor_divide(left, right);
    case BinaryOp::kMod:
      return modulo(left, right);
    case BinaryOp::kPow:
      return power(left, right);
  }
  return Value();
}

Result<Value> Interpreter::eval_logic(const LogicExpr& e) {
  const Value left = OCTAVO_TRY(eval(*e.left));
  return truthy(left) == e.is_and ? eval(*e.right) : left;
}

Result<bool> Interpreter::compare_values(CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kIn:
      return contains(b, a);
    case CompareOp::kNotIn:
      return !OCTAVO_TRY(contains(b, a));
    default:
      break;
  }
  if (a.kind() == b.kind()) OCTAVO_TRY(charge_comparison(*this, a, b));
  if (op == CompareOp::kEq || op == CompareOp::kNe) return equals(a, b) == (op == CompareOp::kEq);
  const int order = OCTAVO_TRY(compare(a, b));
  if (order == 2) return false;
  switch (op) {
    case CompareOp::kLt:
      return order < 0;
    case CompareOp::kLe:
      return order <= 0;
    case CompareOp::kGt:
      return order > 0;
    default:
      return order >= 0;
  }
}

Result<Value> Interpreter::eval_compare(const CompareExpr& e) {
  Value left = OCTAVO_TRY(eval(*e.first));
  bool holds = true;
  for (const auto& [op, operand] : e.rest) {
    const Value right = OCTAVO_TRY(eval(*operand));
    holds = OCTAVO_TRY(compare_values(op, left, right));
    if (!holds) break;
    left = right;
  }
  return Value::boolean(holds);
}

Result<Value> Interpreter::eval_conditional(const ConditionalExpr& e) {
  if (truthy(OCTAVO_TRY(eval(*e.test)))) return eval(*e.if_true);
  if (e.if_false) return eval(*e.if_false);
  return heap().undefined("an inline if was false and has no else");
}

Result<Value> Interpreter::eval_item(const ItemExpr& e) {
  const Value object = OCTAVO_TRY(eval(*e.object));
  return get_item(object, OCTAVO_TRY(eval(*e.index)));
}

Result<Value> Interpreter::eval_slice(const SliceExpr& e) {
  const Value object = OCTAVO_TRY(eval(*e.object));
  const Value start = e.start ? OCTAVO_TRY(eval(*e.start)) : Value();
  const Value stop = e.stop ? OCTAVO_TRY(eval(*e.stop)) : Value();
  const Value step = e.step ? OCTAVO_TRY(eval(*e.step)) : Value();
  return slice(object, start, stop, step);
}

Status Interpreter::eval_arguments(const Arguments& arguments, CallArgs& out) {
  out.positional.reserve(arguments.positional.size());
  for (const ExprPtr& argument : arguments.positional) {
    out.positional.push_back(OCTAVO_TRY(eval(*argument)));
  }
  for (const auto& [name, argument] : arguments.keyword) {
    out.keyword.emplace_back(name, OCTAVO_TRY(eval(*argument)));
  }
  if (arguments.star) {
    const Value star = OCTAVO_TRY(eval(*arguments.star));
    const std::span<const Value> items = OCTAVO_TRY(iterate(star));
    out.positional.insert(out.positional.end(), items.begin(), items.end());
  }
  if (!arguments.star_star) return {};
  const Value more = OCTAVO_TRY(eval(*arguments.star_star));
  if (!more.is_dict()) return invalid_argument("the value after ** must be a dict");
  for (const Dict::Entry& entry : more.dict().entries()) {
    if (!entry.key.is_string()) return invalid_argument("keywords must be strings");
    for (const auto& [name, value] : out.keyword) {
      if (name->text == entry.key.text()) {
        return invalid_argument(format("the argument '{}' is given twice", name->text));
      }
    }
    out.keyword.emplace_back(&entry.key.str(), entry.value);
  }
  return charge(static_cast<int64_t>(more.dict().size() * more.dict().size()));
}

Result<Value> Interpreter::eval_call(const CallExpr& e) {
  const Value callee = OCTAVO_TRY(eval(*e.callee));
  CallArgs args;
  OCTAVO_TRY(eval_arguments(e.arguments, args));
  return call(callee, args);
}

Result<Value> Interpreter::eval_filter(const FilterExpr& e) {
  const Value input = e.input ? OCTAVO_TRY(eval(*e.input)) : OCTAVO_TRY(make_text(*block_text_));
  CallArgs args;
  OCTAVO_TRY(eval_arguments(e.arguments, args));
  if (e.fn == nullptr) return invalid_argument(format("no filter named '{}'", e.name->text));
  return e.fn(*this, input, args);
}

Result<Value> Interpreter::eval_test(const TestExpr& e) {
  const Value input = OCTAVO_TRY(eval(*e.input));
  CallArgs args;
  OCTAVO_TRY(eval_arguments(e.arguments, args));
  if (e.fn == nullptr) return invalid_argument(format("no test named '{}'", e.name->text));
  return Value::boolean(OCTAVO_TRY(e.fn(*this, input, args)));
}

}  // namespace octavo::tokenizer::jinja
