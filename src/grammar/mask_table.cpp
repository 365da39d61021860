#include "grammar/mask_table.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace octavo::grammar {
namespace {

// How many frames of a stack are looked at. A token that ends more, such as "}]}]}", is decided by
// itself; with fewer there would be many of those, with more fewer places would share a mask.
constexpr int kCutDepth = 4;

// Of one grammar: a state takes a bit over 1 KiB, a mask of 128k tokens 16 KiB, a place, which is
// kept twice, 16 bytes, and a frame some 60. With half of the first and the last two, all is
// forgotten before the next mask.
constexpr size_t kMaxStates = 4096;
constexpr size_t kMaxMasks = 512;
constexpr size_t kMaxFrames = 1 << 17;
constexpr size_t kMaxHeldPlaces = 1 << 19;

constexpr uint32_t kUnknown = UINT32_MAX;

}  // namespace

MaskTable::MaskTable(const Automaton& automaton, const TokenTrie& trie)
    : automaton_(automaton), trie_(trie), stepper_(automaton), path_(trie.longest_token() + 1) {}

Result<std::shared_ptr<const TokenMask>> MaskTable::find(const State& state, const Frames& frames) {
  const std::lock_guard lock(mutex_);
  if (holds_over(2)) clear();
  if (masks_.size() >= kMaxMasks) masks_.clear();
  State local;
  for (const Config& config : state.configs) {
    local.configs.push_back({config.node, cut(config.frame, frames)});
  }
  std::sort(local.configs.begin(), local.configs.end());
  const auto last = std::unique(local.configs.begin(), local.configs.end());
  local.configs.erase(last, local.configs.end());
  const uint32_t id = intern(std::move(local));
  auto& mask = masks_[id];
  if (mask == nullptr) {
    auto walked = walk(id);
    if (!walked.ok()) {
      clear();
      return walked.status();
    }
    mask = *std::move(walked);
  }
  return mask;
}

// Over the `part`-th part of what it may hold.
bool MaskTable::holds_over(size_t part) const {
  return states_.size() > kMaxStates / part || frames_.size() > kMaxFrames / part ||
         num_places_ > kMaxHeldPlaces / part;
}

void MaskTable::clear() {
  frames_ = {};
  states_.clear();
  verdicts_.clear();
  overflow_ = false;
  num_places_ = 0;
  ids_.clear();
  masks_.clear();
}

// The upper frames, copied.
FrameId MaskTable::cut(FrameId frame, const Frames& frames) {
  std::array<FrameId, kCutDepth> kept;
  int num_kept = 0;
  for (; num_kept < kCutDepth && frame != kBottom; frame = frames[frame].parent) {
    kept[num_kept++] = frame;
  }
  FrameId copy = frame == kBottom ? kBottom : kCut;
  while (num_kept > 0) {
    const Frame& own = frames[kept[--num_kept]];
    copy = frames_.intern({own.node, canonical_count(own), copy});
  }
  return copy;
}

// Counts that no token can bring to a limit are alike. Each body takes a byte at least.
uint32_t MaskTable::canonical_count(const Frame& frame) const {
  const Node& node = automaton_.nodes[frame.node];
  if (node.kind != NodeKind::kRepeat || node.body_nullable) return frame.count;
  const uint64_t reach = uint64_t{frame.count} + trie_.longest_token() + 1;
  if (reach < node.min) return 0;
  const bool far = node.max == kUnlimited || reach < node.max;
  return frame.count >= node.min && far ? node.min : frame.count;
}

uint32_t MaskTable::intern(State state) {
  const auto id = static_cast<uint32_t>(states_.size());
  overflow_ = overflow_ || state.overflow;
  auto key = std::tuple(state.configs, state.escaped, state.accepts);
  const auto [found, is_new] = ids_.try_emplace(std::move(key), id);
  if (is_new) {
    num_places_ += state.configs.size();
    const bool alive = !state.configs.empty() || state.accepts;
    verdicts_.push_back(alive ? Verdict::kYes : state.escaped ? Verdict::kOpen : Verdict::kNo);
    states_.push_back({std::move(state), {}, {}});
    states_.back().next.fill(kUnknown);
  }
  return found->second;
}

uint32_t MaskTable::advance(uint32_t id, uint8_t byte) {
  const uint32_t known = states_[id].next[byte];
  if (known != kUnknown) return known;
  const uint32_t next = intern(stepper_.advance(states_[id].state, byte, frames_));
  const auto [first, last] = alike(states_[id].state, byte);
  std::fill(states_[id].next.begin() + first, states_[id].next.begin() + last + 1, next);
  return next;
}

// The bytes around `byte` that no edge tells from it: a string has a dozen kinds of bytes.
std::pair<int, int> MaskTable::alike(const State& state, uint8_t byte) const {
  int first = 0;
  int last = 255;
  for (const Config& config : state.configs) {
    const Node& node = automaton_.nodes[config.node];
    for (uint32_t i = node.begin; i < node.end; ++i) {
      const Edge& edge = automaton_.edges[i];
      if (byte < edge.first) {
        last = std::min(last, edge.first - 1);
      } else if (byte > edge.last) {
        first = std::max(first, edge.last + 1);
      } else {
        first = std::max<int>(first, edge.first);
        last = std::min<int>(last, edge.last);
      }
    }
  }
  return {first, last};
}

uint64_t MaskTable::loops(uint32_t id) {
  if (states_[id].loops) return *states_[id].loops;
  uint64_t others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<uint8_t>(byte);
    if (advance(id, b) != id) others |= TokenTrie::kind_of(b);
  }
  states_[id].loops = ~others;
  return ~others;
}

Result<std::shared_ptr<const TokenMask>> MaskTable::walk(uint32_t start) {
  auto mask = std::make_shared<TokenMask>();
  mask->allowed.resize((static_cast<size_t>(trie_.vocab_size()) + 63) / 64);
  const auto allow = [&](std::span<const TokenId> ids) {
    for (const TokenId id : ids) mask->allowed[id / 64] |= uint64_t{1} << (id % 64);
  };
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  const uint64_t work_end = stepper_.work() + kMaxWork;
  path_[0] = start;
  for (size_t i = 0; i + 1 < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const uint32_t state = path_[node.depth];
    const uint32_t next = advance(state, node.byte);
    const Verdict verdict = verdicts_[next];
    if (overflow_ || stepper_.work() > work_end || holds_over(1)) return too_ambiguous();
    if (verdict == Verdict::kNo) {
      i = node.subtree_end;
    } else if (verdict == Verdict::kYes && next == state &&
               (node.kinds_below & ~loops(state)) == 0) {
      allow(trie_.tokens_of_subtree(i));  // most of a string's
      i = node.subtree_end;
    } else {
      const std::span<const TokenId> ids = trie_.tokens(i);
      if (verdict == Verdict::kYes) {
        allow(ids);
      } else {
        mask->open.insert(mask->open.end(), ids.begin(), ids.end());
      }
      path_[node.depth + 1] = next;
      ++i;
    }
  }
  num_places_ += mask->open.size() / 2;
  return std::shared_ptr<const TokenMask>(std::move(mask));
}

}  // namespace octavo::grammar
