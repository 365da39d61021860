// Panels of byte codes for the int8 kernels of AVX2 and AVX-512.
#include "backends/cpu/quant_unpack.inl"

namespace octavo::backends::cpu {
namespace {

// One block of kPanel rows.
struct alignas(64) PanelBlock {
  int32_t codes[kGroups][kPanel];
  float d[kPanel];
  float m[kPanel];  // written and read only for types that have a minimum
};

// The largest magnitude of a block says whether all of it is finite, once NaN is looked for.
OCTAVO_INLINE bool is_finite(float largest, bool has_nan) {
  return !has_nan && largest <= __FLT_MAX__;
}

OCTAVO_INLINE void mark_not_finite(QuantizedBlock& block) {
  memset(&block, 0, sizeof(block));
  block.scale = block.sum = __builtin_nanf("");
}

// The rows of a panel lie apart, which hardware does not prefetch well; together they are one
// contiguous range, and so are those of the next. While a panel is read, the same part of the next
// one is fetched: that made reading from memory two to three times as fast.
OCTAVO_INLINE void prefetch(const void* next, int64_t begin, int64_t bytes) {
  for (int64_t i = 0; next != nullptr && i < bytes; i += 64) {
    __builtin_prefetch(static_cast<const char*>(next) + begin + i, 0, 2);
  }
}

// kFlip changes the codes' bits on their way into the panel.
template <typename Block, int32_t kFlip = 0>
void unpack(void* panel, const Int8Weights& w) {
  constexpr int64_t kBytes = kPanel * sizeof(Block);
  auto* out = static_cast<PanelBlock*>(panel);
  for (int64_t b = 0; b < w.blocks; ++b) {
    prefetch(w.next, b * kBytes, kBytes);
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      const LaneBlock in =
          unpack_lanes<Block>(w.rows + lane, b * static_cast<int64_t>(sizeof(Block)));
      for (int g = 0; g < kGroups; ++g) {
        const IntVec codes = kFlip == 0 ? in.codes[g] : xor_int(in.codes[g], set1_int(kFlip));
        memcpy(out[b].codes[g] + lane, &codes, sizeof(codes));
      }
      store(out[b].d + lane, in.d);
      if constexpr (kHasMin<Block>) store(out[b].m + lane, in.m);
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cpu
