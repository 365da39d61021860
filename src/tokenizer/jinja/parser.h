// Parses a template's tokens into its syntax tree, with Jinja2's grammar.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "octavo/status.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/heap.h"
#include "tokenizer/jinja/lexer.h"

namespace octavo::tokenizer::jinja {

// Expressions nest at most this deep, statements too; so does every walk over the tree.
inline constexpr int kMaxParseDepth = 200;

// Expressions alone. Literals go to `heap`.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, const std::vector<Token>& tokens, Heap& heap)
      : source_(source), tokens_(tokens), heap_(heap) {}

 protected:
  enum class Conditional : uint8_t { kAllowed, kNo };
  struct TupleRules {
    Conditional conditional = Conditional::kAllowed;
    std::string_view end_name;  // a name that ends the tuple, or ""
    bool parenthesised = false;
    bool target = false;  // only what can be assigned to
    bool namespaces = false;
  };

  const Token& current() const { return tokens_[next_]; }
  const Token& following() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  const Token& advance() {
    const Token& token = tokens_[next_];
    if (token.kind != TokenKind::kEnd) ++next_;
    return token;
  }
  bool at_op(std::string_view op) const {
    return current().kind == TokenKind::kOperator && current().text == op;
  }
  bool at_name(std::string_view name) const {
    return current().kind == TokenKind::kName && current().text == name;
  }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  Status expect_op(std::string_view op);
  Status expect_name(std::string_view name);
  Status expect(TokenKind kind, std::string_view what);
  Result<const Str*> take_name();
  Status fail(size_t offset, std::string_view message) const;
  Status unexpected(std::string_view wanted) const;

  Result<ExprPtr> parse_expression(Conditional conditional = Conditional::kAllowed);
  Result<ExprPtr> parse_tuple(const TupleRules& rules);
  Result<ExprPtr> parse_target(std::string_view end_name, bool namespaces);
  // Filters after `input` (null in filter blocks); `inline_first`: the first has no `|`.
  Result<ExprPtr> parse_filters(ExprPtr input, bool inline_first);

  // Counts nested constructs; the guard's destructor leaves again.
  struct DepthGuard {
    explicit DepthGuard(int& d) : depth(d) { ++depth; }
    ~DepthGuard() { --depth; }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;
    int& depth;
  };
  Status check_depth() const;

  std::string_view source_;
  const std::vector<Token>& tokens_;
  Heap& heap_;
  size_t next_ = 0;
  int depth_ = 0;

 private:
  template <typename T, typename... Args>
  std::unique_ptr<T> make(size_t offset, Args&&... args) {
    auto node = std::make_unique<T>(std::forward<Args>(args)...);
    node->offset = static_cast<uint32_t>(offset);
    return node;
  }
  // Sets the node's depth from its children's; too deep a tree is an error.
  Result<ExprPtr> finish(ExprPtr node, std::span<const Expr* const> children) const;
  Result<ExprPtr> finish_items(std::unique_ptr<ItemsExpr> node) const;
  Result<ExprPtr> finish_call(ExprPtr node, const Expr* head, const Arguments& arguments) const;

  Result<ExprPtr> parse_conditional();
  Result<ExprPtr> parse_or();
  Result<ExprPtr> parse_and();
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_compare();
  bool take_compare_op(CompareOp& op);
  Result<ExprPtr> parse_sum();
  Result<ExprPtr> parse_concat();
  Result<ExprPtr> parse_product();
  Result<ExprPtr> parse_power();
  Result<ExprPtr> parse_binary(ExprPtr left, BinaryOp op, Result<ExprPtr> right, size_t offset);
  Result<ExprPtr> parse_unary(bool with_filter);
  Result<ExprPtr> parse_primary(bool namespaces);
  Result<ExprPtr> parse_name(bool namespaces);
  Result<ExprPtr> parse_number();
  Result<ExprPtr> parse_string();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr node);
  Result<ExprPtr> parse_filter_expression(ExprPtr node);
  Result<ExprPtr> parse_attribute(ExprPtr object);
  Result<ExprPtr> parse_subscript(ExprPtr object);
  Result<ExprPtr> parse_slice(ExprPtr object, ExprPtr start, size_t offset);
  Result<ExprPtr> parse_call(ExprPtr callee);
  Result<ExprPtr> parse_test(ExprPtr input);
  Status parse_arguments(Arguments& arguments);
  Status parse_argument(Arguments& arguments, size_t offset);
  Status check_target(const Expr& target) const;
};

// A whole template.
class Parser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;
  Result<Body> parse();

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to one of the tags `ends`, whose name is consumed and returned.
  Result<std::string_view> parse_body(Body& body, Ends ends);
  Result<std::string_view> parse_until(Body& body, Ends ends, size_t offset);
  Status parse_statement(Body& body);
  Status parse_print(Body& body);
  Result<StmtPtr> parse_if();
  Result<StmtPtr> parse_for();
  Result<StmtPtr> parse_set();
  Result<StmtPtr> parse_macro();
  Result<StmtPtr> parse_call_block();
  Result<StmtPtr> parse_generation();
  Result<StmtPtr> parse_filter_block();
  Result<StmtPtr> parse_with();
  Result<StmtPtr> parse_loop_control(StmtKind kind);
  Status parse_signature(FunctionInfo& function);
  // A body that is a function of its own, which `break` cannot leave.
  Status parse_function_body(FunctionInfo& function, std::string_view end);

  int loops_ = 0;  // around the current statement, within its function
};

}  // namespace octavo::tokenizer::jinja
