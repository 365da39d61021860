// Panels of byte codes for the int8 kernels of AVX2 and AVX-512.
#include "backends/cpu/k_unpack.inl"

namespace octavo::backends::cpu {
namespace {

// 32 values of kPanel rows.
template <int kNumParts>
struct alignas(64) PanelBlock {
  int32_t codes[kGroups][kPanel];
  float d[kNumParts][kPanel];
  float m[kNumParts][kPanel];  // written and read only for types that have a minimum
};

// The largest magnitude of a block says whether all of it is finite, once NaN is looked for.
OCTAVO_INLINE bool is_finite(float largest, bool has_nan) {
  return !has_nan && largest <= __FLT_MAX__;
}

OCTAVO_INLINE void mark_not_finite(QuantizedBlock& block) {
  memset(&block, 0, sizeof(block));
  block.scale = block.sums[0] = block.sums[1] = __builtin_nanf("");
}

OCTAVO_INLINE void set_sum(QuantizedBlock& block, int part, int32_t sum, int zero) {
  block.sums[part] = block.scale * static_cast<float>(sum);
  block.corrections[part] = -zero * sum;
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
  auto* out = static_cast<PanelBlock<kParts<Block>>*>(panel);
  for (int64_t b = 0; b < w.blocks / kSubBlocks<Block>; ++b) {
    prefetch(w.next, b * kBytes, kBytes);
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      LaneFile<Block> file;
      file.load(w.rows + lane, b * static_cast<int64_t>(sizeof(Block)));
      for (int s = 0; s < kSubBlocks<Block>; ++s) {
        const auto in = file.block(s);
        auto& to = out[b * kSubBlocks<Block> + s];
        for (int g = 0; g < kGroups; ++g) {
          const IntVec codes = kFlip == 0 ? in.codes[g] : xor_int(in.codes[g], set1_int(kFlip));
          memcpy(to.codes[g] + lane, &codes, sizeof(codes));
        }
        for (int p = 0; p < kParts<Block>; ++p) {
          store(to.d[p] + lane, in.d[p]);
          if constexpr (kFormat<Block>.has_min) store(to.m[p] + lane, in.m[p]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cpu
