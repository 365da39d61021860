#include "tokenizer/charsmap.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"

namespace octavo::tokenizer {
namespace {

// Eight times the longest that Unicode's compatibility forms have.
constexpr size_t kMaxTargetBytes = 256;

// A unit of the double array as the library Darts-clone packs it.
constexpr bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
constexpr uint32_t leaf_value(uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
constexpr uint32_t label_of(uint32_t unit) {
  return unit & 0x800000FF;
}
constexpr uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

uint32_t read_u32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

Result<CharsMap> CharsMap::parse(std::string_view bytes, const std::string& source) {
  constexpr size_t kUnitBytes = sizeof(uint32_t);
  const uint32_t trie_bytes = bytes.size() < kUnitBytes ? 0 : read_u32(bytes.data());
  if (trie_bytes == 0 || trie_bytes % kUnitBytes != 0 || trie_bytes > bytes.size() - kUnitBytes) {
    return data_loss(format("{}: a character map of {} bytes cannot hold a trie of {}", source,
                            bytes.size(), trie_bytes));
  }
  CharsMap map;
  map.units_.resize(trie_bytes / kUnitBytes);
  for (size_t i = 0; i < map.units_.size(); ++i) {
    map.units_[i] = read_u32(bytes.data() + (i + 1) * kUnitBytes);
  }
  map.targets_ = bytes.substr(kUnitBytes + trie_bytes);
  for (size_t begin = 0; begin < map.targets_.size();) {
    const size_t size = map.target_at(static_cast<uint32_t>(begin)).size();
    if (size > kMaxTargetBytes) {
      return data_loss(format("{}: a replacement of {} bytes, more than the {} allowed", source,
                              size, kMaxTargetBytes));
    }
    begin += size + 1;
  }
  return map;
}

std::string_view CharsMap::target_at(uint32_t offset) const {
  const std::string_view rest =
      std::string_view(targets_).substr(std::min<size_t>(offset, targets_.size()));
  return rest.substr(0, rest.find('\0'));
}

std::optional<CharsMap::Match> CharsMap::find(std::string_view text, Prefer prefer) const {
  std::optional<Match> found;
  uint32_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (node >= units_.size()) break;
    if (!has_leaf(unit)) continue;
    found = Match{i + 1, target_at(leaf_value(units_[node]))};
    if (prefer == Prefer::kShortest) break;
  }
  return found;
}

}  // namespace octavo::tokenizer
