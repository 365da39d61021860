// Automaton: a compiled grammar: a graph over bytes whose nodes may call others, as a rule calls a
// rule. Stepper follows it byte by byte; what is still open is kept in Frames. Repeats count in
// their frame instead of being written out.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "octavo/status.h"

namespace octavo::grammar {

using NodeId = uint32_t;
using FrameId = uint32_t;

// Ways to places followed for one mask, some tenths of a second. A schema takes some ten thousand.
inline constexpr uint64_t kMaxWork = 8'000'000;

inline constexpr uint32_t kUnlimited = UINT32_MAX;

enum class NodeKind : uint8_t {
  kBytes,   // one byte, by the edges [begin, end)
  kSplit,   // goes on at each of the targets [begin, end)
  kCall,    // body, then next
  kRepeat,  // body so many times, then next
  kReturn,  // the end of a body
};

struct Node {
  NodeKind kind = NodeKind::kReturn;
  bool body_nullable = false;  // of kRepeat: it may be empty
  uint32_t begin = 0;
  uint32_t end = 0;
  NodeId body = 0;
  NodeId next = 0;
  uint32_t min = 0;
  uint32_t max = kUnlimited;
};

struct Edge {
  uint8_t first = 0;  // a byte in [first, last]
  uint8_t last = 0;
  NodeId target = 0;
};

struct Automaton {
  NodeId root = 0;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<NodeId> targets;
};

// Where to go on at the end of a body, and how often a repeat's body has ended before.
struct Frame {
  NodeId node = 0;
  uint32_t count = 0;
  FrameId parent = 0;
  bool operator==(const Frame&) const = default;
};

inline constexpr FrameId kBottom = 0;  // below the root: the text may end
inline constexpr FrameId kCut = 1;     // below it everything was cut away

// Equal frames are one.
class Frames {
 public:
  Frames() : frames_(2) {}

  FrameId intern(const Frame& frame);
  const Frame& operator[](FrameId id) const { return frames_[id]; }
  size_t size() const { return frames_.size(); }

 private:
  struct Hash {
    size_t operator()(const Frame& frame) const;
  };
  std::vector<Frame> frames_;
  std::unordered_map<Frame, FrameId, Hash> ids_;
};

// A place: always one of kBytes.
struct Config {
  NodeId node = 0;
  FrameId frame = 0;
  auto operator<=>(const Config&) const = default;
};

// All places where the text so far may stand.
struct State {
  std::vector<Config> configs;  // ascending, all different
  bool accepts = false;         // the text may end here
  bool escaped = false;         // what comes next may be below kCut
  bool overflow = false;        // there were too many places: nothing is known
};

// Where a state has too many places, or a mask would take too long.
inline Status too_ambiguous() {
  return invalid_argument("the grammar is too ambiguous to be followed");
}

class Stepper {
 public:
  explicit Stepper(const Automaton& automaton) : automaton_(&automaton) {}

  State start(Frames& frames);
  State advance(const State& from, uint8_t byte, Frames& frames);

  // Ways to places that were followed so far.
  uint64_t work() const { return work_; }

 private:
  struct Slot {
    Config config;
    uint64_t step = 0;
  };

  void add(NodeId node, FrameId frame);
  Slot& find_slot(const Config& config);
  void grow_slots();
  void expand(State& state, Frames& frames);
  void expand_repeat(const Node& node, NodeId id, uint32_t count, FrameId parent, Frames& frames);
  void leave(FrameId frame, State& state, Frames& frames);
  State finish(Frames& frames);

  const Automaton* automaton_;
  uint64_t work_ = 0;
  std::vector<Config> open_;  // the places of this step
  std::vector<Slot> slots_;   // the same by hash; what is of older steps counts as empty
  uint64_t step_ = 0;
};

}  // namespace octavo::grammar
