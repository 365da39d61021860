// The syntax tree of a template. The parser makes it, resolve_names fills in the references to
// variables, and from then on it is constant.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/value.h"

namespace octavo::tokenizer::jinja {

// A variable: `hops` functions outwards, then the slot in that function's activation.
struct VariableRef {
  uint32_t hops = 0;
  uint32_t slot = 0;
};

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kTuple,
  kList,
  kDict,
  kUnary,
  kBinary,
  kLogic,
  kConcat,
  kCompare,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNamespaceRef,  // a.b as the target of `set`
};

struct Expr {
  explicit Expr(ExprKind k) : kind(k) {}
  virtual ~Expr() = default;
  ExprKind kind;
  uint16_t depth = 1;
  uint32_t offset = 0;  // into the source
};
using ExprPtr = std::unique_ptr<Expr>;

struct ConstExpr : Expr {
  ConstExpr() : Expr(ExprKind::kConst) {}
  Value value;
};

struct NameExpr : Expr {
  NameExpr() : Expr(ExprKind::kName) {}
  const Str* name = nullptr;
  VariableRef ref;
};

struct NamespaceRefExpr : Expr {
  NamespaceRefExpr() : Expr(ExprKind::kNamespaceRef) {}
  const Str* name = nullptr;
  const Str* attribute = nullptr;
  VariableRef ref;
};

struct ItemsExpr : Expr {  // kTuple, kList, kConcat; kDict: keys and values in turn
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

enum class UnaryOp : uint8_t { kNot, kNegate, kPlus };
struct UnaryExpr : Expr {
  UnaryExpr() : Expr(ExprKind::kUnary) {}
  UnaryOp op{};
  ExprPtr operand;
};

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
struct BinaryExpr : Expr {
  BinaryExpr() : Expr(ExprKind::kBinary) {}
  BinaryOp op{};
  ExprPtr left;
  ExprPtr right;
};

struct LogicExpr : Expr {
  LogicExpr() : Expr(ExprKind::kLogic) {}
  bool is_and = false;
  ExprPtr left;
  ExprPtr right;
};

enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };
struct CompareExpr : Expr {
  CompareExpr() : Expr(ExprKind::kCompare) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct ConditionalExpr : Expr {
  ConditionalExpr() : Expr(ExprKind::kConditional) {}
  ExprPtr test;
  ExprPtr if_true;
  ExprPtr if_false;  // may be null
};

struct AttributeExpr : Expr {
  AttributeExpr() : Expr(ExprKind::kAttribute) {}
  ExprPtr object;
  const Str* name = nullptr;
};

struct ItemExpr : Expr {
  ItemExpr() : Expr(ExprKind::kItem) {}
  ExprPtr object;
  ExprPtr index;
};

struct SliceExpr : Expr {
  SliceExpr() : Expr(ExprKind::kSlice) {}
  ExprPtr object;
  ExprPtr start;  // these may be null
  ExprPtr stop;
  ExprPtr step;
};

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<const Str*, ExprPtr>> keyword;
  ExprPtr star;       // *expr, or null
  ExprPtr star_star;  // **expr, or null
};

struct CallExpr : Expr {
  CallExpr() : Expr(ExprKind::kCall) {}
  ExprPtr callee;
  Arguments arguments;
};

struct FilterExpr : Expr {
  FilterExpr() : Expr(ExprKind::kFilter) {}
  ExprPtr input;  // null: the text that the enclosing block has collected
  const Str* name = nullptr;
  FilterFn fn = nullptr;  // null: not known, an error where it is reached
  Arguments arguments;
};

struct TestExpr : Expr {
  TestExpr() : Expr(ExprKind::kTest) {}
  ExprPtr input;
  const Str* name = nullptr;
  TestFn fn = nullptr;  // as in FilterExpr
  Arguments arguments;
};

enum class StmtKind : uint8_t {
  kText,
  kPrint,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
};

struct Stmt {
  explicit Stmt(StmtKind k) : kind(k) {}
  virtual ~Stmt() = default;
  StmtKind kind;
  uint32_t offset = 0;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

// What happens to the variables of a scope when it is entered.
struct ScopeLoad {
  enum class Action : uint8_t { kUnset, kGlobal, kAlias };
  uint32_t slot = 0;
  Action action = Action::kUnset;
  const Str* name = nullptr;  // kGlobal: the template variable
  VariableRef source;         // kAlias: the outer variable
};
struct Scope {
  std::vector<ScopeLoad> loads;
  std::vector<uint32_t> parameters;  // slots that whoever enters the scope fills
};

struct TextStmt : Stmt {
  TextStmt() : Stmt(StmtKind::kText) {}
  std::string_view text;
};

struct PrintStmt : Stmt {
  PrintStmt() : Stmt(StmtKind::kPrint) {}
  ExprPtr value;
};

struct IfStmt : Stmt {
  IfStmt() : Stmt(StmtKind::kIf) {}
  struct Branch {
    ExprPtr test;
    Body body;
  };
  std::vector<Branch> branches;
  Body otherwise;
};

// The function of a macro, a call block or a recursive loop: it has an activation of its own.
struct FunctionInfo {
  const Str* name = nullptr;  // null where it has none
  std::vector<std::pair<const Str*, uint32_t>> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  Scope scope;
  uint32_t num_slots = 0;
  // Whether the body uses these names without being a parameter, and where they go.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
  uint32_t caller_slot = 0;
  uint32_t kwargs_slot = 0;
  uint32_t varargs_slot = 0;
};

struct ForStmt : Stmt {
  ForStmt() : Stmt(StmtKind::kFor) {}
  ExprPtr target;
  ExprPtr iterable;
  ExprPtr test;         // may be null
  ExprPtr test_target;  // the target again, in the scope of the test
  Body body;
  Body otherwise;
  bool recursive = false;
  bool uses_loop = false;
  uint32_t loop_slot = 0;
  uint32_t num_slots = 0;  // of a recursive loop's own activation
  Scope body_scope;
  Scope test_scope;
  Scope else_scope;
};

struct SetStmt : Stmt {
  SetStmt() : Stmt(StmtKind::kSet) {}
  ExprPtr target;
  ExprPtr value;
};

struct SetBlockStmt : Stmt {
  SetBlockStmt() : Stmt(StmtKind::kSetBlock) {}
  ExprPtr target;
  ExprPtr filter;  // a chain of FilterExpr, or null
  Body body;
  Scope scope;
};

struct MacroStmt : Stmt {
  MacroStmt() : Stmt(StmtKind::kMacro) {}
  VariableRef ref;
  FunctionInfo function;
};

struct CallBlockStmt : Stmt {
  CallBlockStmt() : Stmt(StmtKind::kCallBlock) {}
  ExprPtr call;  // a CallExpr; null: `generation`, whose body is simply called
  FunctionInfo function;
};

struct FilterBlockStmt : Stmt {
  FilterBlockStmt() : Stmt(StmtKind::kFilterBlock) {}
  ExprPtr filter;
  Body body;
  Scope scope;
};

struct WithStmt : Stmt {
  WithStmt() : Stmt(StmtKind::kWith) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;  // target, value
  Body body;
  Scope scope;
};

struct BreakStmt : Stmt {
  using Stmt::Stmt;  // kBreak and kContinue
};

template <typename T>
T& as(Expr& e) {
  return static_cast<T&>(e);
}
template <typename T>
const T& as(const Expr& e) {
  return static_cast<const T&>(e);
}
template <typename T>
T& as(Stmt& s) {
  return static_cast<T&>(s);
}
template <typename T>
const T& as(const Stmt& s) {
  return static_cast<const T&>(s);
}

}  // namespace octavo::tokenizer::jinja
