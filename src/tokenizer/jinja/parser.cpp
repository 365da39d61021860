#include "tokenizer/jinja/parser.h"

#include <algorithm>

#include "base/format.h"

namespace octavo::tokenizer::jinja {

Result<Body> Parser::parse() {
  Body body;
  OCTAVO_TRY(parse_until(body, {}, 0));
  return body;
}

Result<std::string_view> Parser::parse_body(Body& body, Ends ends) {
  const size_t offset = current().offset;
  skip_op(":");
  OCTAVO_TRY(expect(TokenKind::kBlockEnd, "'%}'"));
  return parse_until(body, ends, offset);
}

Result<std::string_view> Parser::parse_until(Body& body, Ends ends, size_t offset) {
  const DepthGuard guard(depth_);
  OCTAVO_TRY(check_depth());
  while (current().kind != TokenKind::kEnd) {
    const Token& token = advance();
    if (token.kind == TokenKind::kData) {
      auto text = std::make_unique<TextStmt>();
      text->offset = token.offset;
      text->text = token.text;
      body.push_back(std::move(text));
    } else if (token.kind == TokenKind::kVariableBegin) {
      auto print = std::make_unique<PrintStmt>();
      print->offset = token.offset;
      print->value = OCTAVO_TRY(parse_tuple({}));
      OCTAVO_TRY(expect(TokenKind::kVariableEnd, "'}}'"));
      body.push_back(std::move(print));
    } else {
      const std::string_view tag =
          current().kind == TokenKind::kName ? current().text : std::string_view();
      if (std::find(ends.begin(), ends.end(), tag) != ends.end()) {
        advance();
        return tag;
      }
      OCTAVO_TRY(parse_statement(body));
      OCTAVO_TRY(expect(TokenKind::kBlockEnd, "'%}'"));
    }
  }
  if (ends.size() == 0) return std::string_view();
  return fail(offset, format("this block has no '{}'", *(ends.end() - 1)));
}

Status Parser::parse_statement(Body& body) {
  const Token& token = current();
  if (token.kind != TokenKind::kName) return unexpected("the name of a tag");
  const std::string_view tag = advance().text;
  if (tag == "print") return parse_print(body);
  Result<StmtPtr> statement = [&]() -> Result<StmtPtr> {
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "generation") return parse_generation();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "break") return parse_loop_control(StmtKind::kBreak);
    if (tag == "continue") return parse_loop_control(StmtKind::kContinue);
    return fail(token.offset, format("the tag '{}' is not known here", tag));
  }();
  StmtPtr parsed = OCTAVO_TRY(std::move(statement));
  parsed->offset = token.offset;
  body.push_back(std::move(parsed));
  return {};
}

Status Parser::parse_print(Body& body) {
  bool first = true;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!first) OCTAVO_TRY(expect_op(","));
    first = false;
    auto print = std::make_unique<PrintStmt>();
    print->offset = current().offset;
    print->value = OCTAVO_TRY(parse_expression());
    body.push_back(std::move(print));
  }
  return {};
}

Result<StmtPtr> Parser::parse_if() {
  auto node = std::make_unique<IfStmt>();
  std::string_view end = "elif";
  while (end == "elif") {
    IfStmt::Branch& branch = node->branches.emplace_back();
    TupleRules rules;
    rules.conditional = Conditional::kNo;
    branch.test = OCTAVO_TRY(parse_tuple(rules));
    end = OCTAVO_TRY(parse_body(branch.body, {"elif", "else", "endif"}));
  }
  if (end == "else") OCTAVO_TRY(parse_body(node->otherwise, {"endif"}));
  return StmtPtr(std::move(node));
}

Result<StmtPtr> Parser::parse_for() {
  auto node = std::make_unique<ForStmt>();
  node->target = OCTAVO_TRY(parse_target("in", false));
  OCTAVO_TRY(expect_name("in"));
  TupleRules rules;
  rules.conditional = Conditional::kNo;
  rules.end_name = "recursive";
  node->iterable = OCTAVO_TRY(parse_tuple(rules));
  if (skip_name("if")) node->test = OCTAVO_TRY(parse_expression());
  node->recursive = skip_name("recursive");
  ++loops_;
  const std::string_view end = OCTAVO_TRY(parse_body(node->body, {"else", "endfor"}));
  --loops_;
  if (end == "else") OCTAVO_TRY(parse_body(node->otherwise, {"endfor"}));
  return StmtPtr(std::move(node));
}

Result<StmtPtr> Parser::parse_set() {
  ExprPtr target = OCTAVO_TRY(parse_target({}, true));
  if (skip_op("=")) {
    auto node = std::make_unique<SetStmt>();
    node->target = std::move(target);
    node->value = OCTAVO_TRY(parse_tuple({}));
    return StmtPtr(std::move(node));
  }
  auto node = std::make_unique<SetBlockStmt>();
  node->target = std::move(target);
  if (at_op("|")) node->filter = OCTAVO_TRY(parse_filters(nullptr, false));
  OCTAVO_TRY(parse_body(node->body, {"endset"}));
  return StmtPtr(std::move(node));
}

Status Parser::parse_signature(FunctionInfo& function) {
  OCTAVO_TRY(expect_op("("));
  while (!at_op(")")) {
    if (!function.parameters.empty()) OCTAVO_TRY(expect_op(","));
    const size_t offset = current().offset;
    const Str* name = OCTAVO_TRY(take_name());
    for (const auto& [other, slot] : function.parameters) {
      if (other->text == name->text) return fail(offset, "a parameter is named twice");
    }
    if (skip_op("=")) {
      function.defaults.push_back(OCTAVO_TRY(parse_expression()));
    } else if (!function.defaults.empty()) {
      return fail(offset, "a parameter without a default follows one with a default");
    }
    function.parameters.emplace_back(name, 0);
  }
  return expect_op(")");
}

Status Parser::parse_function_body(FunctionInfo& function, std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0);
  OCTAVO_TRY(parse_body(function.body, {end}));
  loops_ = outer_loops;
  return {};
}

Result<StmtPtr> Parser::parse_macro() {
  auto node = std::make_unique<MacroStmt>();
  node->function.name = OCTAVO_TRY(take_name());
  OCTAVO_TRY(parse_signature(node->function));
  OCTAVO_TRY(parse_function_body(node->function, "endmacro"));
  return StmtPtr(std::move(node));
}

Result<StmtPtr> Parser::parse_call_block() {
  auto node = std::make_unique<CallBlockStmt>();
  const size_t offset = current().offset;
  if (at_op("(")) OCTAVO_TRY(parse_signature(node->function));
  node->call = OCTAVO_TRY(parse_expression());
  if (node->call->kind != ExprKind::kCall) return fail(offset, "expected a call");
  OCTAVO_TRY(parse_function_body(node->function, "endcall"));
  return StmtPtr(std::move(node));
}

// Marks what the model wrote, for training; here its body is rendered. As in Hugging Face's
// extension it is a call block, so that `set` inside does not reach outside.
Result<StmtPtr> Parser::parse_generation() {
  auto node = std::make_unique<CallBlockStmt>();
  OCTAVO_TRY(parse_function_body(node->function, "endgeneration"));
  return StmtPtr(std::move(node));
}

Result<StmtPtr> Parser::parse_filter_block() {
  auto node = std::make_unique<FilterBlockStmt>();
  node->filter = OCTAVO_TRY(parse_filters(nullptr, true));
  OCTAVO_TRY(parse_body(node->body, {"endfilter"}));
  return StmtPtr(std::move(node));
}

Result<StmtPtr> Parser::parse_with() {
  auto node = std::make_unique<WithStmt>();
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node->bindings.empty()) OCTAVO_TRY(expect_op(","));
    ExprPtr target = OCTAVO_TRY(parse_target({}, false));
    OCTAVO_TRY(expect_op("="));
    node->bindings.emplace_back(std::move(target), OCTAVO_TRY(parse_expression()));
  }
  OCTAVO_TRY(parse_body(node->body, {"endwith"}));
  return StmtPtr(std::move(node));
}

Result<StmtPtr> Parser::parse_loop_control(StmtKind kind) {
  if (loops_ == 0) return fail(current().offset, "break and continue need a loop around them");
  return StmtPtr(std::make_unique<BreakStmt>(kind));
}

}  // namespace octavo::tokenizer::jinja
