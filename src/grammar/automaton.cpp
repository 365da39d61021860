#include "grammar/automaton.h"

#include <algorithm>

namespace octavo::grammar {
namespace {

// A grammar that is in more places at once is ambiguous beyond use. Those of schemas are in as many
// as an object has optional properties in a row.
constexpr size_t kMaxPlaces = 8192;
constexpr size_t kFewestSlots = 64;

size_t mix(uint64_t a, uint64_t b) {
  uint64_t hash = (a * 0x9E3779B97F4A7C15u) ^ (b + 0x7F4A7C15u);
  hash *= 0xBF58476D1CE4E5B9u;
  return static_cast<size_t>(hash ^ (hash >> 31));
}

}  // namespace

size_t Frames::Hash::operator()(const Frame& frame) const {
  return mix(uint64_t{frame.node} << 32 | frame.count, frame.parent);
}

FrameId Frames::intern(const Frame& frame) {
  const auto [found, is_new] = ids_.emplace(frame, static_cast<FrameId>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return found->second;
}

State Stepper::start(Frames& frames) {
  add(automaton_->root, kBottom);
  return finish(frames);
}

State Stepper::advance(const State& from, uint8_t byte, Frames& frames) {
  for (const Config& config : from.configs) {
    const Node& node = automaton_->nodes[config.node];
    for (uint32_t i = node.begin; i < node.end; ++i) {
      const Edge& edge = automaton_->edges[i];
      if (edge.first <= byte && byte <= edge.last) add(edge.target, config.frame);
    }
  }
  work_ += from.configs.size();
  State state = finish(frames);
  state.escaped = state.escaped || from.escaped;
  state.overflow = state.overflow || from.overflow;
  return state;
}

// Each place once a step.
void Stepper::add(NodeId node, FrameId frame) {
  ++work_;
  if (open_.empty()) ++step_;
  if (open_.size() > kMaxPlaces) return;
  if (2 * open_.size() >= slots_.size()) grow_slots();
  Slot& slot = find_slot({node, frame});
  if (slot.step == step_) return;
  slot = {{node, frame}, step_};
  open_.push_back(slot.config);
}

Stepper::Slot& Stepper::find_slot(const Config& config) {
  size_t i = mix(config.node, config.frame) % slots_.size();
  while (slots_[i].step == step_ && slots_[i].config != config) i = (i + 1) % slots_.size();
  return slots_[i];
}

void Stepper::grow_slots() {
  slots_.assign(std::max(kFewestSlots, 2 * slots_.size()), Slot());
  for (const Config& config : open_) find_slot(config) = {config, step_};
}

State Stepper::finish(Frames& frames) {
  State state;
  if (!open_.empty()) expand(state, frames);
  state.overflow = open_.size() > kMaxPlaces;
  if (state.overflow) state.configs.clear();
  std::sort(state.configs.begin(), state.configs.end());
  open_.clear();
  return state;
}

void Stepper::expand(State& state, Frames& frames) {
  for (size_t i = 0; i < open_.size() && open_.size() <= kMaxPlaces; ++i) {
    const Config config = open_[i];
    const Node& node = automaton_->nodes[config.node];
    switch (node.kind) {
      case NodeKind::kBytes:
        state.configs.push_back(config);
        break;
      case NodeKind::kSplit:
        for (uint32_t t = node.begin; t < node.end; ++t) {
          add(automaton_->targets[t], config.frame);
        }
        break;
      case NodeKind::kCall:
        add(node.body, frames.intern({config.node, 0, config.frame}));
        break;
      case NodeKind::kRepeat:
        expand_repeat(node, config.node, 0, config.frame, frames);
        break;
      case NodeKind::kReturn:
        leave(config.frame, state, frames);
    }
  }
}

// `count` bodies have ended.
void Stepper::expand_repeat(const Node& node, NodeId id, uint32_t count, FrameId parent,
                            Frames& frames) {
  if (count >= node.min) add(node.next, parent);
  if (count < node.max) add(node.body, frames.intern({id, count, parent}));
}

void Stepper::leave(FrameId frame, State& state, Frames& frames) {
  if (frame == kBottom) {
    state.accepts = true;
    return;
  }
  if (frame == kCut) {
    state.escaped = true;
    return;
  }
  const Frame open = frames[frame];
  const Node& node = automaton_->nodes[open.node];
  if (node.kind == NodeKind::kCall) return add(node.next, open.parent);
  // Where nothing limits the count, it counts up to the least only.
  const uint32_t most = node.max == kUnlimited ? node.min : node.max;
  expand_repeat(node, open.node, std::min(open.count + 1, most), open.parent, frames);
}

}  // namespace octavo::grammar
