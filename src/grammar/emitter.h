// Emitter: the nodes of an automaton, made from its end to its beginning: each piece is given the
// node that comes after it, and returns the node it begins at.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/builder.h"

namespace octavo::grammar {

class Emitter {
 public:
  // `nullable`, by expression: it may be empty. All must outlive this.
  Emitter(const std::vector<Expr>& exprs, const std::vector<Rule>& rules,
          const std::vector<char>& nullable);

  // `rules` must be sound.
  Result<Automaton> emit_all(RuleId root);

 private:
  NodeId emit(ExprId id, NodeId next);
  NodeId emit_literals(std::span<const std::string> texts, size_t offset, NodeId next);
  NodeId emit_chars(const CharSet& set, NodeId next);
  NodeId emit_alternatives(const Expr& expr, NodeId next);
  NodeId emit_repeat(const Expr& expr, NodeId next);
  NodeId emit_call(RuleId rule, NodeId next);
  NodeId add(Node node);
  NodeId add_bytes(const std::vector<Edge>& edges);
  NodeId add_split(const std::vector<NodeId>& targets);

  const std::vector<Expr>& exprs_;
  const std::vector<Rule>& rules_;
  const std::vector<char>& nullable_;
  Automaton automaton_;
  bool too_large_ = false;
  bool bad_repeat_ = false;
};

}  // namespace octavo::grammar
