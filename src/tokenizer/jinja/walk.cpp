#include "tokenizer/jinja/walk.h"

namespace octavo::tokenizer::jinja {
namespace {

class UseFinder {
 public:
  explicit UseFinder(std::string_view name) : name_(name) {}
  bool found() const { return found_; }

  void body(Body& statements) {
    for (StmtPtr& s : statements) statement(*s);
  }

 private:
  void load(ExprPtr& e) {
    if (!e) return;
    for_each_name(*e, [this](const Str* name) { found_ |= !declared_ && name->text == name_; });
  }
  void declare(const Str* name) { declared_ |= name->text == name_; }
  void target(ExprPtr& e) {
    if (e->kind == ExprKind::kNamespaceRef) return;  // names no variable of its own
    for_each_name(*e, [this](const Str* name) { declare(name); });
  }
  void function(FunctionInfo& f) {
    for (auto& [name, slot] : f.parameters) declare(name);
    for (ExprPtr& value : f.defaults) load(value);
    body(f.body);
  }
  void statement(Stmt& s);

  std::string_view name_;
  bool declared_ = false;
  bool found_ = false;
};

void UseFinder::statement(Stmt& s) {
  switch (s.kind) {
    case StmtKind::kText:
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      break;
    case StmtKind::kPrint:
      load(as<PrintStmt>(s).value);
      break;
    case StmtKind::kIf:
      for (IfStmt::Branch& branch : as<IfStmt>(s).branches) {
        load(branch.test);
        body(branch.body);
      }
      body(as<IfStmt>(s).otherwise);
      break;
    case StmtKind::kFor:
      target(as<ForStmt>(s).target);
      load(as<ForStmt>(s).iterable);
      body(as<ForStmt>(s).body);
      body(as<ForStmt>(s).otherwise);
      load(as<ForStmt>(s).test);
      break;
    case StmtKind::kSet:
      target(as<SetStmt>(s).target);
      load(as<SetStmt>(s).value);
      break;
    case StmtKind::kSetBlock:
      target(as<SetBlockStmt>(s).target);
      load(as<SetBlockStmt>(s).filter);
      body(as<SetBlockStmt>(s).body);
      break;
    case StmtKind::kMacro:
      function(as<MacroStmt>(s).function);
      break;
    case StmtKind::kCallBlock:
      load(as<CallBlockStmt>(s).call);
      function(as<CallBlockStmt>(s).function);
      break;
    case StmtKind::kFilterBlock:
      body(as<FilterBlockStmt>(s).body);
      load(as<FilterBlockStmt>(s).filter);
      break;
    case StmtKind::kWith:
      for (auto& [name, value] : as<WithStmt>(s).bindings) target(name);
      for (auto& [name, value] : as<WithStmt>(s).bindings) load(value);
      body(as<WithStmt>(s).body);
      break;
  }
}

}  // namespace

bool uses_name(Body& body, std::string_view name) {
  UseFinder finder(name);
  finder.body(body);
  return finder.found();
}

}  // namespace octavo::tokenizer::jinja
