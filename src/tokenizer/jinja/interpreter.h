// Walks the tree of a template and writes its text: one Interpreter a render.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "octavo/tokenizer.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/objects.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/scope.h"

namespace octavo::tokenizer::jinja {

// Calls within calls, and nodes within nodes whatever calls lie between: a thread's stack of 8 MiB
// is enough for them many times over.
inline constexpr int kMaxCalls = 200;
inline constexpr int kMaxNesting = 1000;

class Interpreter : public Runtime {
 public:
  Interpreter(std::string_view source, const Json& variables, int64_t now_s)
      : Runtime(now_s), source_(source), variables_(variables) {}

  Result<RenderedPrompt> render(const Body& body, const RootScope& root);

  Result<Value> loop_attribute(Loop& loop, std::string_view name) override;
  Result<Value> call_loop(Loop& loop, const CallArgs& args) override;

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Statements. Errors get the position of the innermost node.
  Result<Flow> execute(const Body& body);
  Result<Flow> execute(const Stmt& s);
  Result<Flow> dispatch(const Stmt& s);
  Status print(const PrintStmt& s);
  Status write(const Str& text);
  Status write_string(const Value& value);
  Result<Flow> execute_if(const IfStmt& s);
  Result<Flow> execute_for(const ForStmt& s);
  Result<Flow> run_loop(Loop& loop);
  Result<bool> run_iterations(Loop& loop, Flow& outer);
  Result<Flow> execute_set_block(const SetBlockStmt& s);
  Result<Flow> execute_filter_block(const FilterBlockStmt& s);
  Result<Flow> execute_with(const WithStmt& s);
  Status execute_macro(const MacroStmt& s);
  Status execute_call_block(const CallBlockStmt& s);
  Status assign(const Expr& target, const Value& value);
  Status unpack(const ItemsExpr& target, const Value& value);

  // Scopes and loops.
  Activation* activate(uint32_t num_slots, Activation* outer);
  Status enter(const Scope& scope);
  void leave(const Scope& scope);
  Result<Value> global(const Str& name);
  Result<Value> next_of(Loop& loop);  // kMissing at the end
  Result<Value> peek(Loop& loop);
  Result<int64_t> loop_length(Loop& loop);
  Status advance(Loop& loop, const Value& item);

  // Expressions.
  Result<Value> eval(const Expr& e);
  Result<Value> eval_node(const Expr& e);
  Result<Value> eval_name(const NameExpr& e);
  Result<Value> eval_items(const ItemsExpr& e);
  Result<Value> eval_dict(const ItemsExpr& e);
  Result<Value> eval_concat(const ItemsExpr& e);
  Result<Value> eval_unary(const UnaryExpr& e);
  Result<Value> eval_binary(const BinaryExpr& e);
  Result<Value> eval_logic(const LogicExpr& e);
  Result<Value> eval_compare(const CompareExpr& e);
  Result<bool> compare_values(CompareOp op, const Value& a, const Value& b);
  Result<Value> eval_conditional(const ConditionalExpr& e);
  Result<Value> eval_item(const ItemExpr& e);
  Result<Value> eval_slice(const SliceExpr& e);
  Result<Value> eval_call(const CallExpr& e);
  Result<Value> eval_filter(const FilterExpr& e);
  Result<Value> eval_test(const TestExpr& e);
  Status eval_arguments(const Arguments& arguments, CallArgs& out);

  // Calls.
  Result<Value> call(const Value& callee, const CallArgs& args);
  Result<Value> call_macro(const Macro& macro, const CallArgs& args);
  Status bind_macro(const FunctionInfo& f, const CallArgs& args);
  Status bind_special(const FunctionInfo& f, const CallArgs& args, std::vector<bool>& used);
  Status fill_defaults(const FunctionInfo& f);

  Status locate(uint32_t offset, const Status& status);

  std::string_view source_;
  const Json& variables_;
  std::unordered_map<std::string_view, Value> globals_;  // those looked up so far
  Activation* activation_ = nullptr;
  TextBuilder* out_ = nullptr;
  const TextBuilder* block_text_ = nullptr;  // what a filter without an input works on
  int nesting_ = 0;
  int calls_ = 0;
};

}  // namespace octavo::tokenizer::jinja
