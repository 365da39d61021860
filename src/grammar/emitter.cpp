#include "grammar/emitter.h"

#include <algorithm>

#include "base/format.h"

namespace octavo::grammar {
namespace {

// About 10 MB of nodes and edges; schemas in use have some thousands.
constexpr size_t kMaxNodes = 200'000;

// A counted repeat of what may be empty goes through its counts without reading anything.
constexpr uint32_t kMaxEmptyRepeats = 64;

constexpr NodeId kReturnNode = 0;

size_t common_prefix(const std::string& a, const std::string& b, size_t offset) {
  size_t i = offset;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

Emitter::Emitter(const std::vector<Expr>& exprs, const std::vector<Rule>& rules,
                 const std::vector<char>& nullable)
    : exprs_(exprs), rules_(rules), nullable_(nullable) {}

// The entry of rule i is node 1 + i, so that calls know it before the rule is made.
Result<Automaton> Emitter::emit_all(RuleId root) {
  add({});
  for (size_t i = 0; i < rules_.size(); ++i) add_split({kReturnNode});
  for (size_t i = 0; i < rules_.size() && !too_large_; ++i) {
    const NodeId entry = emit(rules_[i].expr, kReturnNode);
    automaton_.targets[automaton_.nodes[1 + i].begin] = entry;
  }
  if (too_large_) {
    return invalid_argument(format("the grammar is too large: it needs over {} states", kMaxNodes));
  }
  if (bad_repeat_) {
    return invalid_argument(
        format("what may be empty can be repeated {} times at most", kMaxEmptyRepeats));
  }
  automaton_.root = 1 + root;
  return std::move(automaton_);
}

NodeId Emitter::add(Node node) {
  too_large_ = too_large_ || automaton_.nodes.size() + automaton_.edges.size() > 2 * kMaxNodes ||
               automaton_.targets.size() > 2 * kMaxNodes;
  if (too_large_) return kReturnNode;
  automaton_.nodes.push_back(node);
  return static_cast<NodeId>(automaton_.nodes.size() - 1);
}

NodeId Emitter::add_bytes(const std::vector<Edge>& edges) {
  Node node;
  node.kind = NodeKind::kBytes;
  node.begin = static_cast<uint32_t>(automaton_.edges.size());
  automaton_.edges.insert(automaton_.edges.end(), edges.begin(), edges.end());
  node.end = static_cast<uint32_t>(automaton_.edges.size());
  return add(node);
}

NodeId Emitter::add_split(const std::vector<NodeId>& targets) {
  Node node;
  node.kind = NodeKind::kSplit;
  node.begin = static_cast<uint32_t>(automaton_.targets.size());
  automaton_.targets.insert(automaton_.targets.end(), targets.begin(), targets.end());
  node.end = static_cast<uint32_t>(automaton_.targets.size());
  return add(node);
}

NodeId Emitter::emit(ExprId id, NodeId next) {
  const Expr& expr = exprs_[id];
  if (too_large_) return next;
  switch (expr.kind) {
    case ExprKind::kLiterals: {
      std::vector<std::string> texts = expr.literals;
      std::sort(texts.begin(), texts.end());
      texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
      return emit_literals(texts, 0, next);
    }
    case ExprKind::kChars:
      return emit_chars(expr.chars, next);
    case ExprKind::kSequence:
      for (size_t i = expr.parts.size(); i > 0; --i) next = emit(expr.parts[i - 1], next);
      return next;
    case ExprKind::kAlternatives:
      return emit_alternatives(expr, next);
    case ExprKind::kRepeat:
      return emit_repeat(expr, next);
    case ExprKind::kRule:
      return emit_call(expr.rule, next);
  }
  return next;
}

// `texts` are sorted, all different and alike before `offset`. They become a trie, so that however
// many there are, the text stands at one place.
NodeId Emitter::emit_literals(std::span<const std::string> texts, size_t offset, NodeId next) {
  if (texts.empty()) return add_bytes({});
  const size_t fork = common_prefix(texts.front(), texts.back(), offset);
  NodeId node = next;
  if (texts.size() > 1) {
    const bool may_end = texts.front().size() == fork;
    std::vector<Edge> edges;
    for (size_t i = may_end ? 1 : 0; i < texts.size() && !too_large_;) {
      size_t end = i + 1;
      while (end < texts.size() && texts[end][fork] == texts[i][fork]) ++end;
      const auto byte = static_cast<uint8_t>(texts[i][fork]);
      edges.push_back({byte, byte, emit_literals(texts.subspan(i, end - i), fork + 1, next)});
      i = end;
    }
    node = add_bytes(edges);
    if (may_end) node = add_split({node, next});
  }
  for (size_t i = fork; i > offset && !too_large_; --i) {
    const auto byte = static_cast<uint8_t>(texts.front()[i - 1]);
    node = add_bytes({{byte, byte, node}});
  }
  return node;
}

NodeId Emitter::emit_chars(const CharSet& set, NodeId next) {
  std::map<std::tuple<uint8_t, uint8_t, NodeId>, NodeId> tails;
  std::vector<Edge> edges;
  for (const Utf8Range& range : utf8_ranges(set)) {
    NodeId node = next;
    for (int i = range.size - 1; i > 0; --i) {
      const auto [first, last] = range.bytes[i];
      const auto [tail, is_new] = tails.try_emplace({first, last, node});
      if (is_new) tail->second = add_bytes({{first, last, node}});
      node = tail->second;
    }
    const auto [first, last] = range.bytes[0];
    if (!edges.empty() && edges.back().target == node && edges.back().last + 1 == first) {
      edges.back().last = last;
    } else {
      edges.push_back({first, last, node});
    }
  }
  return add_bytes(edges);
}

NodeId Emitter::emit_alternatives(const Expr& expr, NodeId next) {
  std::vector<NodeId> targets;
  for (const ExprId part : expr.parts) targets.push_back(emit(part, next));
  return targets.size() == 1 ? targets[0] : add_split(targets);
}

NodeId Emitter::emit_repeat(const Expr& expr, NodeId next) {
  const ExprId part = expr.parts[0];
  if (expr.max == 0) return next;
  if (expr.max == 1) {
    const NodeId body = emit(part, next);
    return expr.min == 1 ? body : add_split({body, next});
  }
  if (expr.max == kUnlimited && expr.min <= 1) {
    const NodeId loop = add_split({next, next});
    const NodeId body = emit(part, loop);
    if (too_large_) return next;
    automaton_.targets[automaton_.nodes[loop].begin] = body;
    return expr.min == 1 ? body : loop;
  }
  Node node;
  node.kind = NodeKind::kRepeat;
  node.body_nullable = nullable_[part] != 0;
  node.min = node.body_nullable ? 0 : expr.min;
  node.max = expr.max;
  node.next = next;
  bad_repeat_ =
      bad_repeat_ || (node.body_nullable && node.max > kMaxEmptyRepeats && node.max != kUnlimited);
  node.body = emit(part, kReturnNode);
  return add(node);
}

// What ends with a call need not come back.
NodeId Emitter::emit_call(RuleId rule, NodeId next) {
  const NodeId entry = 1 + rule;
  if (next == kReturnNode) return entry;
  Node node;
  node.kind = NodeKind::kCall;
  node.body = entry;
  node.next = next;
  return add(node);
}

}  // namespace octavo::grammar
