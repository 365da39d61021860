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
  block.fine = kNoneFine;
}

OCTAVO_INLINE void set_sum(QuantizedBlock& block, int part, int32_t sum, int zero) {
  block.sums[part] = block.scale * static_cast<float>(sum);
  block.corrections[part] = -zero * sum;
}

// How many of `blocks` blocks, of each of kRows rows, come before the first that is fine in one.
template <int kRows>
OCTAVO_INLINE int64_t blocks_to_fine(const QuantizedBlock* x, int64_t x_stride, int64_t blocks) {
  int32_t next = kNoneFine;
  for (int r = 0; r < kRows; ++r) {
    const int32_t fine = x[r * x_stride].fine;
    next = fine > next ? fine : next;
  }
  if (next > 0) return 0;
  return -next < blocks ? -next : blocks;
}

// Upper codes' products are worth kUpperStep times as much.
OCTAVO_INLINE IntVec add_upper(IntVec dots, IntVec upper_dots) {
  static_assert(kUpperStep == 1 << 7);
  return add_int(dots, shift_left<7>(upper_dots));
}

// Fetches part `s` of the block of kLanes rows at `at`. Of a large block a part is fetched with
// each 32 values: all at once its lines would fill the buffers in which a core waits for memory.
template <typename Block>
OCTAVO_INLINE void prefetch_part(const char* at, int s) {
  constexpr auto kBytes = static_cast<int64_t>(kLanes * sizeof(Block));
  constexpr int64_t kLine = 64;
  for (int64_t i = kLine * s; i < kBytes; i += kLine * kSubBlocks<Block>) {
    __builtin_prefetch(at + i, 0, 2);
  }
}

// kLanes rows that pack_lanes brought together: of every block first the bytes before the words of
// all rows, then word by word, then the bytes after the words.
template <typename Block>
struct PackedSource {
  static constexpr bool kInLanes = true;
  static constexpr int64_t kSize = sizeof(Block);
  static constexpr int64_t kLead = packed_lead(kSize);
  static constexpr int64_t kWords = (kSize - kLead) / 4;

  const char* block;

  // Block `b` of the file of the rows from `lane` on.
  static OCTAVO_INLINE PackedSource at(const Int8Weights& w, int lane, int64_t b) {
    return {static_cast<const char*>(w.packed) + lane / kLanes * w.lane_stride +
            b * kLanes * kSize};
  }

  OCTAVO_INLINE void prefetch(int s) const { prefetch_part<Block>(block + kPrefetchAhead, s); }

  OCTAVO_INLINE IntVec whole_word(int64_t i) const {
    return load_int(block + (kLead + 4 * i) * kLanes);
  }

  OCTAVO_INLINE IntVec word(int64_t i) const {  // of the last one there may be only two bytes
    return i < kWords ? whole_word(i) : load_halves(block + (kLead + 4 * i) * kLanes);
  }

  OCTAVO_INLINE void words(IntVec (&out)[4], int64_t at) const {
    if (at < kLead) {  // the only one that is asked for
      out[0] = kLead == 1 ? load_bytes(block) : load_halves(block);
      out[1] = out[2] = out[3] = set1_int(0);
      return;
    }
    const int64_t first = (at - kLead) / 4;
    if ((at - kLead) % 4 == 0) {
      for (int i = 0; i < 4; ++i) out[i] = first + i < kWords ? word(first + i) : set1_int(0);
      return;
    }
    for (int i = 0; i < 4; ++i) {  // from the middle of a word
      out[i] = add_int(shift_right<16>(word(first + i)), shift_left<16>(word(first + i + 1)));
    }
  }
};

// Rows as they lie in the file: apart, which hardware does not prefetch well, but those of a panel
// are one contiguous range, and so are those of the next. While a panel is read, the same part of
// the next one is fetched: that made reading from memory two to three times as fast.
template <typename Block>
struct FileSource : RowSource {
  const char* next;  // or null

  static OCTAVO_INLINE FileSource at(const Int8Weights& w, int lane, int64_t b) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(Block));
    const int64_t blocks = w.blocks / kSubBlocks<Block>;
    const auto* next = static_cast<const char*>(w.next);
    if (next != nullptr) next += (lane * blocks + b * kLanes) * kSize;
    return {{w.rows + lane, b * kSize}, next};
  }

  OCTAVO_INLINE void prefetch(int s) const {
    if (next != nullptr) prefetch_part<Block>(next, s);
  }
};

template <typename Block, typename Source, int32_t kFlip>
OCTAVO_INLINE void unpack_from(void* panel, const Int8Weights& w) {
  auto* out = static_cast<PanelBlock<kParts<Block>>*>(panel);
  for (int64_t b = 0; b < w.blocks / kSubBlocks<Block>; ++b) {
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      const Source source = Source::at(w, lane, b);
      LaneFile<Block, Source> file;
      file.load(source);
      for (int s = 0; s < kSubBlocks<Block>; ++s) {
        source.prefetch(s);
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

// kFlip changes the codes' bits on their way into the panel.
template <typename Block, int32_t kFlip = 0>
void unpack(void* panel, const Int8Weights& w) {
  if (w.rows != nullptr) {
    unpack_from<Block, FileSource<Block>, kFlip>(panel, w);
  } else {
    unpack_from<Block, PackedSource<Block>, kFlip>(panel, w);
  }
}

}  // namespace
}  // namespace octavo::backends::cpu
