// Unpacking of blocks into a panel of byte codes; shared by the int8 kernels of AVX2 and AVX-512.
// The including file defines, before it includes this:
//   IntVec fifth_bits(IntVec high, int group)  bit 4 * group + i of every lane, as 16 in byte i
//   IntVec code_of_int8(IntVec values)         the code that its products want for signed weights
#include "backends/cpu/micro_kernels.h"
#include "backends/cpu/simd.h"
#include "ops/blocks.h"

namespace octavo::backends::cpu {
namespace {

constexpr int kPanel = 2 * kLanes;
constexpr int kGroups = ops::kBlockValues / 4;

// One block of `kPanel` rows. Four values of a row share a 32-bit lane: what one dot-product
// instruction takes.
struct alignas(64) PanelBlock {
  int32_t codes[kGroups][kPanel];
  float d[kPanel];
  float m[kPanel];  // written and read only for types that have a minimum
};

template <typename Block>
constexpr bool kHasMin = requires(Block b) { b.m; };
template <typename Block>
constexpr bool kHasFifthBits = requires(Block b) { b.qh; };
template <typename Block>
constexpr bool kHasBytes = sizeof(Block::qs) == ops::kBlockValues;

// The same for kLanes rows, in registers.
struct LaneBlock {
  IntVec codes[kGroups];
  Vec d;
  Vec m;
};

// The block at `offset` of kLanes rows.
template <typename Block>
OCTAVO_INLINE LaneBlock unpack_lanes(const void* const* rows, int64_t offset) {
  LaneBlock out;
  // The scale is the first half of the first word, a minimum the second.
  IntVec head[4];
  load_transposed(head, rows, offset);
  out.d = half_to_float(head[0]);
  out.m = kHasMin<Block> ? half_to_float(shift_right<16>(head[0])) : set1(0);

  IntVec words[4];
  const int64_t codes = offset + static_cast<int64_t>(offsetof(Block, qs));
  load_transposed(words, rows, codes);
  if constexpr (kHasBytes<Block>) {
    for (int g = 0; g < 4; ++g) out.codes[g] = code_of_int8(words[g]);
    load_transposed(words, rows, codes + 16);
    for (int g = 0; g < 4; ++g) out.codes[g + 4] = code_of_int8(words[g]);
  } else {
    IntVec high[4];
    if constexpr (kHasFifthBits<Block>) {
      load_transposed(high, rows, offset + static_cast<int64_t>(offsetof(Block, qh)));
    }
    // Low nibbles are values 0..15, high nibbles 16..31.
    for (int g = 0; g < kGroups; ++g) {
      const IntVec word = g < 4 ? words[g] : shift_right<4>(words[g - 4]);
      out.codes[g] = and_int(word, set1_int(0x0F0F0F0F));
      if constexpr (kHasFifthBits<Block>) {
        out.codes[g] = add_int(out.codes[g], fifth_bits(high[0], g));
      }
    }
  }
  return out;
}

// The rows of a panel lie apart, which hardware does not prefetch well; together they are one
// contiguous range, and so are those of the next. While a panel is read, the same part of the next
// one is fetched: that made reading from memory two to three times as fast.
OCTAVO_INLINE void prefetch(const void* next, int64_t begin, int64_t bytes) {
  for (int64_t i = 0; next != nullptr && i < bytes; i += 64) {
    __builtin_prefetch(static_cast<const char*>(next) + begin + i, 0, 2);
  }
}

template <typename Block>
void unpack(void* panel, const Int8Weights& w) {
  constexpr int64_t kBytes = kPanel * sizeof(Block);
  auto* out = static_cast<PanelBlock*>(panel);
  for (int64_t b = 0; b < w.blocks; ++b) {
    prefetch(w.next, b * kBytes, kBytes);
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      const LaneBlock in =
          unpack_lanes<Block>(w.rows + lane, b * static_cast<int64_t>(sizeof(Block)));
      for (int g = 0; g < kGroups; ++g)
        memcpy(out[b].codes[g] + lane, &in.codes[g], sizeof(IntVec));
      store(out[b].d + lane, in.d);
      if constexpr (kHasMin<Block>) store(out[b].m + lane, in.m);
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cpu
