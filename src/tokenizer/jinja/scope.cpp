#include "tokenizer/jinja/scope.h"

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/source.h"
#include "tokenizer/jinja/symbols.h"
#include "tokenizer/jinja/walk.h"

namespace octavo::tokenizer::jinja {
namespace {

const Str kLoop{"loop", {}};
const Str kCaller{"caller", {}};
const Str kKwargs{"kwargs", {}};
const Str kVarargs{"varargs", {}};

// First pass over a scope: which names it reads and assigns.
void collect(Symbols& symbols, Body& body);

void collect_loads(Symbols& symbols, ExprPtr& e) {
  if (e) for_each_name(*e, [&symbols](const Str* name) { symbols.load(name); });
}

void collect_target(Symbols& symbols, Expr& target, bool parameter) {
  if (target.kind == ExprKind::kNamespaceRef) {
    symbols.load(as<NamespaceRefExpr>(target).name);
  } else if (target.kind == ExprKind::kTuple) {
    for (ExprPtr& item : as<ItemsExpr>(target).items) collect_target(symbols, *item, parameter);
  } else if (parameter) {
    symbols.declare_parameter(as<NameExpr>(target).name);
  } else {
    symbols.store(as<NameExpr>(target).name);
  }
}

void collect_if(Symbols& symbols, IfStmt& node) {
  collect_loads(symbols, node.branches[0].test);
  std::vector<Symbols> branches(3, symbols.branch());
  collect(branches[0], node.branches[0].body);
  for (size_t i = 1; i < node.branches.size(); ++i) {  // each elif is an `if` of its own
    collect_loads(branches[1], node.branches[i].test);
    Symbols inner = branches[1].branch();
    collect(inner, node.branches[i].body);
    branches[1].merge_branches({&inner, 1});
  }
  collect(branches[2], node.otherwise);
  symbols.merge_branches(branches);
}

void collect_statement(Symbols& symbols, Stmt& s) {
  switch (s.kind) {
    case StmtKind::kText:
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      break;
    case StmtKind::kPrint:
      collect_loads(symbols, as<PrintStmt>(s).value);
      break;
    case StmtKind::kIf:
      collect_if(symbols, as<IfStmt>(s));
      break;
    case StmtKind::kFor:
      collect_loads(symbols, as<ForStmt>(s).iterable);
      break;
    case StmtKind::kSet:
      collect_loads(symbols, as<SetStmt>(s).value);
      collect_target(symbols, *as<SetStmt>(s).target, false);
      break;
    case StmtKind::kSetBlock:
      collect_target(symbols, *as<SetBlockStmt>(s).target, false);
      break;
    case StmtKind::kMacro:
      symbols.store(as<MacroStmt>(s).function.name);
      break;
    case StmtKind::kCallBlock:
      collect_loads(symbols, as<CallBlockStmt>(s).call);
      break;
    case StmtKind::kFilterBlock:
      collect_loads(symbols, as<FilterBlockStmt>(s).filter);
      break;
    case StmtKind::kWith:
      for (auto& [target, value] : as<WithStmt>(s).bindings) collect_loads(symbols, value);
      break;
  }
}

void collect(Symbols& symbols, Body& body) {
  for (StmtPtr& s : body) collect_statement(symbols, *s);
}

ExprPtr clone_target(const Expr& target) {
  if (target.kind == ExprKind::kName) {
    auto name = std::make_unique<NameExpr>();
    name->offset = target.offset;
    name->name = as<NameExpr>(target).name;
    return name;
  }
  auto tuple = std::make_unique<ItemsExpr>(ExprKind::kTuple);
  tuple->offset = target.offset;
  for (const ExprPtr& item : as<ItemsExpr>(target).items) {
    tuple->items.push_back(clone_target(*item));
  }
  return tuple;
}

// Second pass: fills in the references. `soft`: directly within an `if`, where a filter that does
// not exist is an error only when it is reached.
class Resolver {
 public:
  explicit Resolver(std::string_view source) : source_(source) {}

  Status body(Body& statements, const Symbols& symbols, bool soft) {
    for (StmtPtr& s : statements) OCTAVO_TRY(statement(*s, symbols, soft));
    return {};
  }

 private:
  Status fail(uint32_t offset, std::string_view message) const {
    return invalid_argument(locate_message(source_, offset, message));
  }
  Status expression(ExprPtr& e, const Symbols& symbols, bool soft) {
    return e ? expression(*e, symbols, soft) : Status();
  }
  Status expression(Expr& e, const Symbols& symbols, bool soft);
  Status reference(const Str* name, VariableRef& ref, const Symbols& symbols, uint32_t offset);
  Status target(Expr& e, const Symbols& symbols, bool assigns);
  Status statement(Stmt& s, const Symbols& symbols, bool soft);
  Status if_statement(IfStmt& node, const Symbols& symbols);
  Status for_statement(ForStmt& node, const Symbols& symbols, bool soft);
  Status for_body(ForStmt& node, Symbols& inner);
  Status set_block(SetBlockStmt& node, const Symbols& symbols);
  Status filter_block(FilterBlockStmt& node, const Symbols& symbols);
  Status with_statement(WithStmt& node, const Symbols& symbols, bool soft);
  Status function(FunctionInfo& info, const Symbols& symbols, uint32_t offset);

  std::string_view source_;
  int loops_ = 0;  // around the current statement, those outside of its macro included
};

Status Resolver::reference(const Str* name, VariableRef& ref, const Symbols& symbols,
                           uint32_t offset) {
  const std::optional<VariableRef> found = symbols.ref(name->text);
  if (!found) return fail(offset, format("'{}' cannot be used here", name->text));
  ref = *found;
  return {};
}

Status Resolver::expression(Expr& e, const Symbols& symbols, bool soft) {
  if (e.kind == ExprKind::kName) {
    return reference(as<NameExpr>(e).name, as<NameExpr>(e).ref, symbols, e.offset);
  }
  if (e.kind == ExprKind::kFilter && as<FilterExpr>(e).fn == nullptr && !soft) {
    return fail(e.offset, format("no filter named '{}'", as<FilterExpr>(e).name->text));
  }
  if (e.kind == ExprKind::kTest && as<TestExpr>(e).fn == nullptr && !soft) {
    return fail(e.offset, format("no test named '{}'", as<TestExpr>(e).name->text));
  }
  const bool soft_below = soft || e.kind == ExprKind::kConditional;
  Status status;
  for_each_child(e, [&](Expr& child) {
    if (status.ok()) status = expression(child, symbols, soft_below);
  });
  return status;
}

// `assigns`: by `set` or `for`, which must leave a loop's `loop` alone.
Status Resolver::target(Expr& e, const Symbols& symbols, bool assigns) {
  if (e.kind == ExprKind::kTuple) {
    for (ExprPtr& item : as<ItemsExpr>(e).items) OCTAVO_TRY(target(*item, symbols, assigns));
    return {};
  }
  if (e.kind == ExprKind::kNamespaceRef) {
    auto& node = as<NamespaceRefExpr>(e);
    return reference(node.name, node.ref, symbols, e.offset);
  }
  auto& node = as<NameExpr>(e);
  if (assigns && loops_ > 0 && node.name->text == kLoop.text) {
    return fail(e.offset, "'loop' cannot be assigned to inside a loop");
  }
  return reference(node.name, node.ref, symbols, e.offset);
}

Status Resolver::statement(Stmt& s, const Symbols& symbols, bool soft) {
  switch (s.kind) {
    case StmtKind::kText:
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      return {};
    case StmtKind::kPrint:
      return expression(as<PrintStmt>(s).value, symbols, soft);
    case StmtKind::kIf:
      return if_statement(as<IfStmt>(s), symbols);
    case StmtKind::kFor:
      return for_statement(as<ForStmt>(s), symbols, soft);
    case StmtKind::kSet:
      OCTAVO_TRY(expression(as<SetStmt>(s).value, symbols, soft));
      return target(*as<SetStmt>(s).target, symbols, true);
    case StmtKind::kSetBlock:
      return set_block(as<SetBlockStmt>(s), symbols);
    case StmtKind::kMacro: {
      auto& node = as<MacroStmt>(s);
      OCTAVO_TRY(reference(node.function.name, node.ref, symbols, s.offset));
      return function(node.function, symbols, s.offset);
    }
    case StmtKind::kCallBlock:
      OCTAVO_TRY(function(as<CallBlockStmt>(s).function, symbols, s.offset));
      return expression(as<CallBlockStmt>(s).call, symbols, soft);
    case StmtKind::kFilterBlock:
      return filter_block(as<FilterBlockStmt>(s), symbols);
    case StmtKind::kWith:
      return with_statement(as<WithStmt>(s), symbols, soft);
  }
  return {};
}

Status Resolver::if_statement(IfStmt& node, const Symbols& symbols) {
  for (IfStmt::Branch& branch : node.branches) {
    OCTAVO_TRY(expression(branch.test, symbols, true));
    OCTAVO_TRY(body(branch.body, symbols, true));
  }
  return body(node.otherwise, symbols, true);
}

Status Resolver::for_statement(ForStmt& node, const Symbols& symbols, bool soft) {
  OCTAVO_TRY(expression(node.iterable, symbols, soft));
  FunctionScope own{symbols.function().depth + 1};
  FunctionScope& function = node.recursive ? own : symbols.function();
  Symbols inner(function, &symbols);
  node.uses_loop = node.recursive || uses_name(node.body, kLoop.text);
  if (node.uses_loop) node.loop_slot = inner.declare_parameter(&kLoop);
  collect_target(inner, *node.target, true);
  collect(inner, node.body);
  node.body_scope = inner.scope();
  ++loops_;
  OCTAVO_TRY(for_body(node, inner));
  Symbols otherwise(function, &symbols);
  collect(otherwise, node.otherwise);
  node.else_scope = otherwise.scope();
  OCTAVO_TRY(body(node.otherwise, otherwise, false));
  --loops_;
  node.num_slots = own.num_slots;
  return {};
}

Status Resolver::for_body(ForStmt& node, Symbols& inner) {
  OCTAVO_TRY(target(*node.target, inner, true));
  OCTAVO_TRY(body(node.body, inner, false));
  if (!node.test) return {};
  Symbols test(inner.function(), inner.parent());
  node.test_target = clone_target(*node.target);
  collect_target(test, *node.test_target, true);
  collect_loads(test, node.test);
  node.test_scope = test.scope();
  OCTAVO_TRY(target(*node.test_target, test, true));
  return expression(node.test, test, false);
}

Status Resolver::set_block(SetBlockStmt& node, const Symbols& symbols) {
  Symbols inner(symbols.function(), &symbols);
  collect(inner, node.body);
  node.scope = inner.scope();
  OCTAVO_TRY(body(node.body, inner, false));
  OCTAVO_TRY(expression(node.filter, inner, false));
  return target(*node.target, symbols, true);
}

Status Resolver::filter_block(FilterBlockStmt& node, const Symbols& symbols) {
  Symbols inner(symbols.function(), &symbols);
  collect(inner, node.body);
  collect_loads(inner, node.filter);
  node.scope = inner.scope();
  OCTAVO_TRY(body(node.body, inner, false));
  return expression(node.filter, inner, false);
}

Status Resolver::with_statement(WithStmt& node, const Symbols& symbols, bool soft) {
  Symbols inner(symbols.function(), &symbols);
  for (auto& [name, value] : node.bindings) collect_target(inner, *name, true);
  collect(inner, node.body);
  node.scope = inner.scope();
  for (auto& [name, value] : node.bindings) {
    OCTAVO_TRY(expression(value, symbols, soft));
    OCTAVO_TRY(target(*name, inner, false));
  }
  return body(node.body, inner, false);
}

Status Resolver::function(FunctionInfo& info, const Symbols& symbols, uint32_t offset) {
  FunctionScope own{symbols.function().depth + 1};
  Symbols inner(own, &symbols);
  const auto names = [&info](const Str& special) {
    for (const auto& [name, slot] : info.parameters) {
      if (name->text == special.text) return true;
    }
    return false;
  };
  for (auto& [name, slot] : info.parameters) slot = inner.declare_parameter(name);
  for (ExprPtr& value : info.defaults) collect_loads(inner, value);
  collect(inner, info.body);
  if (uses_name(info.body, kCaller.text)) {
    const size_t required = info.parameters.size() - info.defaults.size();
    for (size_t i = 0; i < required; ++i) {
      if (info.parameters[i].first->text != kCaller.text) continue;
      return fail(offset, "a macro's parameter 'caller' must have a default");
    }
    info.uses_caller = !names(kCaller);
    if (info.uses_caller) info.caller_slot = inner.declare_parameter(&kCaller);
  }
  if (uses_name(info.body, kKwargs.text) && !names(kKwargs)) {
    info.uses_kwargs = true;
    info.kwargs_slot = inner.declare_parameter(&kKwargs);
  }
  if (uses_name(info.body, kVarargs.text) && !names(kVarargs)) {
    info.uses_varargs = true;
    info.varargs_slot = inner.declare_parameter(&kVarargs);
  }
  info.scope = inner.scope();
  for (ExprPtr& value : info.defaults) OCTAVO_TRY(expression(value, inner, false));
  OCTAVO_TRY(body(info.body, inner, false));
  info.num_slots = own.num_slots;
  return {};
}

}  // namespace

Result<RootScope> resolve_names(Body& body, std::string_view source) {
  RootScope root;
  FunctionScope function;
  Symbols symbols(function, nullptr);
  collect(symbols, body);
  root.scope = symbols.scope();
  OCTAVO_TRY(Resolver(source).body(body, symbols, false));
  root.num_slots = function.num_slots;
  return root;
}

}  // namespace octavo::tokenizer::jinja
