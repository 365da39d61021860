#include "grammar/matcher.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace octavo::grammar {
namespace {

constexpr size_t kFewFrames = 1024;

void apply_bits(const std::vector<uint64_t>& allowed, std::span<float> logits) {
  for (size_t word = 0; word * 64 < logits.size(); ++word) {
    const uint64_t bits = word < allowed.size() ? allowed[word] : 0;
    const std::span<float> part =
        logits.subspan(word * 64, std::min<size_t>(64, logits.size() - word * 64));
    if (bits == 0) {
      std::fill(part.begin(), part.end(), -INFINITY);
      continue;
    }
    for (uint64_t banned = ~bits; banned != 0; banned &= banned - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(banned));
      if (i < part.size()) part[i] = -INFINITY;
    }
  }
}

}  // namespace

Matcher::Matcher(std::shared_ptr<CompiledGrammar> grammar, const Tokenizer& tokenizer)
    : grammar_(std::move(grammar)),
      tokenizer_(&tokenizer),
      stepper_(grammar_->automaton),
      state_(stepper_.start(frames_)),
      max_frames_(kFewFrames) {}

bool Matcher::is_stop(TokenId id) const {
  const auto stops = tokenizer_->stop_ids();
  return std::binary_search(stops.begin(), stops.end(), id);
}

State Matcher::advance(const State& from, std::string_view bytes) {
  if (bytes.empty()) return from;
  State state = stepper_.advance(from, static_cast<uint8_t>(bytes[0]), frames_);
  for (const char byte : bytes.substr(1)) {
    if (state.configs.empty()) return state.overflow ? state : State();
    state = stepper_.advance(state, static_cast<uint8_t>(byte), frames_);
  }
  return state;
}

Status Matcher::mask(std::span<float> logits) {
  if (lost()) return too_ambiguous();
  std::vector<std::pair<TokenId, float>> kept;  // beside what the table allows
  const auto keep = [&](TokenId id) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) kept.emplace_back(id, logits[id]);
  };
  if (may_end()) {
    for (const TokenId id : tokenizer_->stop_ids()) keep(id);
  }
  std::shared_ptr<const TokenMask> mask;
  if (!must_end()) {
    mask = OCTAVO_TRY(grammar_->masks.find(state_, frames_));
    const uint64_t work_end = stepper_.work() + kMaxWork;
    for (const TokenId id : mask->open) {
      const State next = advance(state_, tokenizer_->token_bytes(id, false));
      if (stepper_.work() > work_end) return too_ambiguous();
      if (next.accepts || !next.configs.empty()) keep(id);
    }
    apply_bits(mask->allowed, logits);
  } else {
    std::fill(logits.begin(), logits.end(), -INFINITY);
  }
  for (const auto& [id, logit] : kept) logits[id] = logit;
  return {};
}

void Matcher::accept(TokenId id) {
  if (is_stop(id)) {
    ended_ = true;
    return;
  }
  if (ended_ || tokenizer_->is_control(id)) {
    state_ = {};
    return;
  }
  state_ = advance(state_, tokenizer_->token_bytes(id, false));
  drop_unused_frames();
}

// Frames of places that the text has left stay until they are many.
void Matcher::drop_unused_frames() {
  if (frames_.size() < max_frames_) return;
  Frames used;
  for (Config& config : state_.configs) {
    std::vector<FrameId> chain;
    FrameId frame = config.frame;
    for (; frame != kBottom; frame = frames_[frame].parent) chain.push_back(frame);
    for (; !chain.empty(); chain.pop_back()) {
      const Frame& own = frames_[chain.back()];
      frame = used.intern({own.node, own.count, frame});
    }
    config.frame = frame;
  }
  std::sort(state_.configs.begin(), state_.configs.end());
  frames_ = std::move(used);
  max_frames_ = std::max(kFewFrames, 2 * frames_.size());
}

}  // namespace octavo::grammar
