#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace octavo::tokenizer {
namespace {

// Keys are short: one or two multiplications for most.
uint64_t hash_bytes(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  uint64_t hash = text.size();
  while (!text.empty()) {
    uint64_t word = 0;
    const size_t size = std::min(text.size(), sizeof(word));
    std::memcpy(&word, text.data(), size);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
    text.remove_prefix(size);
  }
  return hash * kMultiplier;
}

}  // namespace

StringIndex::StringIndex(const StringTable& strings, size_t capacity)
    : strings_(&strings), slots_(std::bit_ceil(std::max<size_t>(2 * capacity, 2))) {}

size_t StringIndex::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash >> 32 & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kNoToken) return i;
    if (slot.hash == static_cast<uint32_t>(hash) &&
        (*strings_)[static_cast<size_t>(slot.id)] == text) {
      return i;
    }
  }
}

bool StringIndex::insert(TokenId id) {
  const std::string_view text = (*strings_)[static_cast<size_t>(id)];
  const uint64_t hash = hash_bytes(text);
  Slot& slot = slots_[slot_of(text, hash)];
  const bool is_new = slot.id == kNoToken;
  slot = {id, static_cast<uint32_t>(hash)};
  return is_new;
}

TokenId StringIndex::find(std::string_view text) const {
  return slots_[slot_of(text, hash_bytes(text))].id;
}

}  // namespace octavo::tokenizer
