// Statements, scopes and loops.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/input.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/repr.h"
#include "tokenizer/jinja/source.h"

namespace octavo::tokenizer::jinja {
namespace {

// Makes a pointer or counter something else until the end of the block.
template <typename T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), saved_(place) { place = value; }
  ~Restore() { place_ = saved_; }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T saved_;
};

}  // namespace

Status Interpreter::locate(uint32_t offset, const Status& status) {
  if (error_is_final()) return status;
  keep_error_as_is();
  return {status.code(), locate_message(source_, offset, status.message())};
}

Result<RenderedPrompt> Interpreter::render(const Body& body, const RootScope& root) {
  TextBuilder out;
  out_ = &out;
  activation_ = activate(root.num_slots, nullptr);
  OCTAVO_TRY(enter(root.scope));
  OCTAVO_TRY(execute(body));
  return RenderedPrompt{out.take_text(), out.take_taint()};
}

Activation* Interpreter::activate(uint32_t num_slots, Activation* outer) {
  auto* activation = heap().make<Activation>(outer);
  const std::span<const Value> slots =
      heap().copy(std::span<const Value>(std::vector<Value>(num_slots)));
  activation->slots = {const_cast<Value*>(slots.data()), slots.size()};
  return activation;
}

Result<Value> Interpreter::global(const Str& name) {
  const auto cached = globals_.find(name.text);
  if (cached != globals_.end()) return cached->second;
  const JsonObject* fields = variables_.if_object();
  const Json* found =
      fields == nullptr ? nullptr : fields->if_contains({name.text.data(), name.text.size()});
  Value value;
  if (found != nullptr) {
    value = OCTAVO_TRY(value_of_variable(*this, name.text, *found));
  } else if (const Function* function = find_function(name.text)) {
    value = Value::of(function);
  }
  globals_.emplace(name.text, value);
  return value;
}

Status Interpreter::enter(const Scope& scope) {
  OCTAVO_TRY(charge(static_cast<int64_t>(scope.loads.size())));
  for (const ScopeLoad& load : scope.loads) {
    Value& slot = activation_->slots[load.slot];
    switch (load.action) {
      case ScopeLoad::Action::kUnset:
        slot = Value();
        break;
      case ScopeLoad::Action::kGlobal:
        slot = OCTAVO_TRY(global(*load.name));
        break;
      case ScopeLoad::Action::kAlias:
        slot = activation_->at(load.source);
        break;
    }
  }
  return {};
}

void Interpreter::leave(const Scope& scope) {
  for (const ScopeLoad& load : scope.loads) activation_->slots[load.slot] = Value();
  for (const uint32_t slot : scope.parameters) activation_->slots[slot] = Value();
}

Result<Interpreter::Flow> Interpreter::execute(const Body& body) {
  for (const StmtPtr& s : body) {
    const Flow flow = OCTAVO_TRY(execute(*s));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Stmt& s) {
  const Restore<int> nested(nesting_, nesting_ + 1);
  Status status = charge(1);
  if (nesting_ > kMaxNesting) status = invalid_argument("the template is nested too deeply");
  if (!status.ok()) return locate(s.offset, status);
  Result<Flow> flow = dispatch(s);
  if (!flow.ok()) return locate(s.offset, flow.status());
  return flow;
}

Result<Interpreter::Flow> Interpreter::dispatch(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::kText:
      OCTAVO_TRY(write({as<TextStmt>(s).text, {}}));
      return Flow::kNext;
    case StmtKind::kPrint:
      OCTAVO_TRY(print(as<PrintStmt>(s)));
      return Flow::kNext;
    case StmtKind::kIf:
      return execute_if(as<IfStmt>(s));
    case StmtKind::kFor:
      return execute_for(as<ForStmt>(s));
    case StmtKind::kSet: {
      const Value value = OCTAVO_TRY(eval(*as<SetStmt>(s).value));
      OCTAVO_TRY(assign(*as<SetStmt>(s).target, value));
      return Flow::kNext;
    }
    case StmtKind::kSetBlock:
      return execute_set_block(as<SetBlockStmt>(s));
    case StmtKind::kMacro:
      OCTAVO_TRY(execute_macro(as<MacroStmt>(s)));
      return Flow::kNext;
    case StmtKind::kCallBlock:
      OCTAVO_TRY(execute_call_block(as<CallBlockStmt>(s)));
      return Flow::kNext;
    case StmtKind::kFilterBlock:
      return execute_filter_block(as<FilterBlockStmt>(s));
    case StmtKind::kWith:
      return execute_with(as<WithStmt>(s));
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Interpreter::write(const Str& text) {
  OCTAVO_TRY(check_text(out_->size() + text.text.size()));
  OCTAVO_TRY(charge_text(text.text.size()));
  out_->append(text);
  return {};
}

// What a block's filter or call gives is joined to the text, without Python's str().
Status Interpreter::write_string(const Value& value) {
  const Str* text = OCTAVO_TRY(to_string_argument(value, "what the block gives"));
  return write(*text);
}

Status Interpreter::print(const PrintStmt& s) {
  const Value value = OCTAVO_TRY(eval(*s.value));
  const Str* text = OCTAVO_TRY(to_text(value));
  return write(*text);
}

Result<Interpreter::Flow> Interpreter::execute_if(const IfStmt& s) {
  for (const IfStmt::Branch& branch : s.branches) {
    if (truthy(OCTAVO_TRY(eval(*branch.test)))) return execute(branch.body);
  }
  return execute(s.otherwise);
}

Result<Interpreter::Flow> Interpreter::execute_for(const ForStmt& s) {
  const Value iterable = OCTAVO_TRY(eval(*s.iterable));
  Loop* loop = heap().make<Loop>(&s, activation_);
  loop->items = OCTAVO_TRY(iterate(iterable));
  loop->filtered = s.test != nullptr;
  if (!s.recursive) return run_loop(*loop);
  loop->activation = activate(s.num_slots, activation_);
  const Restore<Activation*> own(activation_, loop->activation);
  return run_loop(*loop);
}

// The iterations, then `else` unless one of them ran to its end.
Result<Interpreter::Flow> Interpreter::run_loop(Loop& loop) {
  const ForStmt& s = *loop.statement;
  Flow flow = Flow::kNext;
  const bool one_completed = OCTAVO_TRY(run_iterations(loop, flow));
  leave(s.body_scope);
  if (one_completed || s.otherwise.empty()) return Flow::kNext;
  OCTAVO_TRY(enter(s.else_scope));
  flow = OCTAVO_TRY(execute(s.otherwise));
  leave(s.else_scope);
  return flow;
}

Result<bool> Interpreter::run_iterations(Loop& loop, Flow& flow) {
  const ForStmt& s = *loop.statement;
  bool one_completed = false;
  while (flow != Flow::kBreak) {
    Value item = loop.next;
    loop.next = Value();
    if (item.missing()) item = OCTAVO_TRY(next_of(loop));
    if (item.missing()) break;
    OCTAVO_TRY(charge(1));
    OCTAVO_TRY(advance(loop, item));
    OCTAVO_TRY(enter(s.body_scope));
    flow = OCTAVO_TRY(execute(s.body));
    one_completed |= flow == Flow::kNext;
  }
  return one_completed;
}

Status Interpreter::advance(Loop& loop, const Value& item) {
  ++loop.index0;
  loop.previous = loop.current;
  loop.current = item;
  OCTAVO_TRY(assign(*loop.statement->target, item));
  if (loop.statement->uses_loop) {
    activation_->slots[loop.statement->loop_slot] = Value::of(&loop);
  }
  return {};
}

// The next item that passes the loop's test, which is evaluated now, in variables of its own.
Result<Value> Interpreter::next_of(Loop& loop) {
  const ForStmt& s = *loop.statement;
  while (loop.next_item < loop.items.size()) {
    const Value item = loop.items[loop.next_item++];
    if (!loop.filtered) return item;
    const Restore<Activation*> own(activation_, loop.activation);
    OCTAVO_TRY(charge(1));
    OCTAVO_TRY(enter(s.test_scope));
    OCTAVO_TRY(assign(*s.test_target, item));
    if (truthy(OCTAVO_TRY(eval(*s.test)))) return item;
  }
  return Value();
}

Result<Value> Interpreter::peek(Loop& loop) {
  if (loop.next.missing()) loop.next = OCTAVO_TRY(next_of(loop));
  return loop.next;
}

Result<int64_t> Interpreter::loop_length(Loop& loop) {
  if (loop.length >= 0) return loop.length;
  if (!loop.filtered) {
    loop.length = static_cast<int64_t>(loop.items.size());
    return loop.length;
  }
  std::vector<Value> rest;
  while (true) {
    const Value item = OCTAVO_TRY(next_of(loop));
    if (item.missing()) break;
    rest.push_back(item);
  }
  loop.items = heap().copy(std::span<const Value>(rest));
  loop.next_item = 0;
  loop.filtered = false;
  loop.length = static_cast<int64_t>(rest.size()) + loop.index0 + 1 + (loop.next.missing() ? 0 : 1);
  return loop.length;
}

Result<Value> Interpreter::loop_attribute(Loop& loop, std::string_view name) {
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(OCTAVO_TRY(peek(loop)).missing());
  if (name == "length") return Value::integer(OCTAVO_TRY(loop_length(loop)));
  if (name == "revindex") return Value::integer(OCTAVO_TRY(loop_length(loop)) - loop.index0);
  if (name == "revindex0") return Value::integer(OCTAVO_TRY(loop_length(loop)) - loop.index0 - 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "previtem") {
    return loop.index0 == 0 ? heap().undefined("there is no previous item") : loop.previous;
  }
  if (name == "nextitem") {
    const Value next = OCTAVO_TRY(peek(loop));
    return next.missing() ? heap().undefined("there is no next item") : next;
  }
  return Value();
}

Result<Interpreter::Flow> Interpreter::execute_set_block(const SetBlockStmt& s) {
  TextBuilder text;
  Flow flow = Flow::kNext;
  {
    const Restore<TextBuilder*> captured(out_, &text);
    OCTAVO_TRY(enter(s.scope));
    flow = OCTAVO_TRY(execute(s.body));
  }
  if (flow != Flow::kNext) return flow;  // the text is lost, as in Jinja2
  const Restore<const TextBuilder*> input(block_text_, &text);
  const Value value = OCTAVO_TRY(s.filter ? eval(*s.filter) : make_text(text));
  leave(s.scope);
  // Python's str() does not run here: a filter may give any value.
  OCTAVO_TRY(assign(*s.target, value));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_filter_block(const FilterBlockStmt& s) {
  TextBuilder text;
  Flow flow = Flow::kNext;
  {
    const Restore<TextBuilder*> captured(out_, &text);
    OCTAVO_TRY(enter(s.scope));
    flow = OCTAVO_TRY(execute(s.body));
  }
  if (flow != Flow::kNext) return flow;
  const Restore<const TextBuilder*> input(block_text_, &text);
  const Value value = OCTAVO_TRY(eval(*s.filter));
  leave(s.scope);
  OCTAVO_TRY(write_string(value));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_with(const WithStmt& s) {
  OCTAVO_TRY(enter(s.scope));
  for (const auto& [target, expression] : s.bindings) {
    const Value value = OCTAVO_TRY(eval(*expression));
    OCTAVO_TRY(assign(*target, value));
  }
  const Flow flow = OCTAVO_TRY(execute(s.body));
  leave(s.scope);
  return flow;
}

Status Interpreter::execute_macro(const MacroStmt& s) {
  activation_->at(s.ref) = Value::of(heap().make<Macro>(&s.function, activation_));
  return {};
}

Status Interpreter::execute_call_block(const CallBlockStmt& s) {
  const Macro* caller = heap().make<Macro>(&s.function, activation_);
  if (!s.call) return write(OCTAVO_TRY(call_macro(*caller, {})).str());
  const auto& node = as<CallExpr>(*s.call);
  const Value callee = OCTAVO_TRY(eval(*node.callee));
  CallArgs args;
  OCTAVO_TRY(eval_arguments(node.arguments, args));
  const Str* name = heap().borrow("caller");
  args.keyword.emplace_back(name, Value::of(caller));
  const Value text = OCTAVO_TRY(call(callee, args));
  return write_string(text);
}

Status Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kTuple) return unpack(as<ItemsExpr>(target), value);
  if (target.kind == ExprKind::kName) {
    activation_->at(as<NameExpr>(target).ref) = value;
    return {};
  }
  const auto& node = as<NamespaceRefExpr>(target);
  const Value object = activation_->at(node.ref);
  if (!object.is(Kind::kNamespace)) {
    return invalid_argument(
        format("'{}' is no namespace: its attributes cannot be set", node.name->text));
  }
  if (node.attribute->text.starts_with('_')) {
    return invalid_argument("a namespace's attributes cannot start with an underscore");
  }
  object.name_space().attributes.set(Value::of(node.attribute), value);
  return {};
}

Status Interpreter::unpack(const ItemsExpr& target, const Value& value) {
  const std::span<const Value> items = OCTAVO_TRY(iterate(value));
  if (items.size() != target.items.size()) {
    return invalid_argument(
        format("cannot unpack {} values into {} names", items.size(), target.items.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) OCTAVO_TRY(assign(*target.items[i], items[i]));
  return {};
}

}  // namespace octavo::tokenizer::jinja
