// Blocks of 256 values to byte codes: the words and scales of a whole block are brought into lanes
// at once, then 32 values at a time are cut from them.
#include "backends/cpu/quant_unpack.inl"

namespace octavo::backends::cpu {
namespace {

template <typename Block>
constexpr ops::KLayout kLayout = {};
template <>
constexpr ops::KLayout kLayout<ops::BlockQ2_K> = ops::kQ2KLayout;
template <>
constexpr ops::KLayout kLayout<ops::BlockQ3_K> = ops::kQ3KLayout;
template <>
constexpr ops::KLayout kLayout<ops::BlockQ4_K> = ops::kQ4KLayout;
template <>
constexpr ops::KLayout kLayout<ops::BlockQ5_K> = ops::kQ5KLayout;
template <>
constexpr ops::KLayout kLayout<ops::BlockQ6_K> = ops::kQ6KLayout;

template <typename Block>
struct KScales {
  Vec d[ops::kKSubBlocks * kParts<Block>];
  Vec m[ops::kKSubBlocks * kParts<Block>];
};

// `bits` in every byte.
OCTAVO_INLINE IntVec and_bytes(IntVec v, int32_t bits) {
  return and_int(v, set1_int(bits * 0x01010101));
}

OCTAVO_INLINE Vec byte_as_float(IntVec words, int byte) {
  return to_float(and_int(shift_right(words, 8 * byte), set1_int(255)));
}

// dst[i] = the 32-bit word i at byte `at`, a multiple of four of them.
template <typename Source>
OCTAVO_INLINE void load_words(IntVec* dst, int count, const Source& source, int64_t at) {
  for (int i = 0; i < count; i += 4) {
    IntVec words[4];
    source.words(words, at + 4 * i);
    for (int j = 0; j < 4; ++j) dst[i + j] = words[j];
  }
}

// 16 bytes may be loaded as long as they end within the block.
template <typename Source>
OCTAVO_INLINE void load_scales(KScales<ops::BlockQ2_K>& out, const Source& source) {
  IntVec scales[4];
  IntVec tail[4];
  source.words(scales, 0);
  source.words(tail, static_cast<int64_t>(sizeof(ops::BlockQ2_K)) - 16);
  const Vec d = half_to_float(tail[3]);
  const Vec dmin = half_to_float(shift_right<16>(tail[3]));
  for (int k = 0; k < 16; ++k) {
    out.d[k] = d * byte_as_float(and_bytes(scales[k / 4], 15), k % 4);
    out.m[k] = set1(0) - dmin * byte_as_float(nibbles(shift_right<4>(scales[k / 4])), k % 4);
  }
}

template <typename Source>
OCTAVO_INLINE void load_scales(KScales<ops::BlockQ3_K>& out, const Source& source) {
  // Two bytes of codes, twelve of scales, the scale of the block.
  IntVec tail[4];
  source.words(tail, static_cast<int64_t>(sizeof(ops::BlockQ3_K)) - 16);
  IntVec bytes[3];
  for (int i = 0; i < 3; ++i) {
    bytes[i] = add_int(shift_right<16>(tail[i]), shift_left<16>(tail[i + 1]));
  }
  const Vec d = half_to_float(shift_right<16>(tail[3]));
  for (int k = 0; k < 16; k += 4) {
    const IntVec low = nibbles(shift_right(bytes[k / 4 % 2], 4 * (k / 8)));
    const IntVec high = and_bytes(shift_right(bytes[2], 2 * (k / 4)), 3);
    const IntVec scales = add_int(low, shift_left<4>(high));
    for (int i = 0; i < 4; ++i) {
      out.d[k + i] = d * (byte_as_float(scales, i) - set1(32));
      out.m[k + i] = set1(0);
    }
  }
}

template <typename Block, typename Source>
OCTAVO_INLINE void load_scales(KScales<Block>& out, const Source& source) {
  static_assert(offsetof(Block, scales) == 4);  // Q4_K and Q5_K
  IntVec head[4];
  source.words(head, 0);
  const Vec d = half_to_float(head[0]);
  const Vec dmin = half_to_float(shift_right<16>(head[0]));
  const IntVec scales[2] = {
      and_bytes(head[1], 63),
      add_int(nibbles(head[3]), and_bytes(shift_right<2>(head[1]), 48)),
  };
  const IntVec minima[2] = {
      and_bytes(head[2], 63),
      add_int(nibbles(shift_right<4>(head[3])), and_bytes(shift_right<2>(head[2]), 48)),
  };
  for (int s = 0; s < ops::kKSubBlocks; ++s) {
    out.d[s] = d * byte_as_float(scales[s / 4], s % 4);
    out.m[s] = set1(0) - dmin * byte_as_float(minima[s / 4], s % 4);
  }
}

template <typename Source>
OCTAVO_INLINE void load_scales(KScales<ops::BlockQ6_K>& out, const Source& source) {
  IntVec scales[4];
  IntVec tail[4];
  source.words(scales, static_cast<int64_t>(offsetof(ops::BlockQ6_K, scales)));
  source.words(tail, static_cast<int64_t>(sizeof(ops::BlockQ6_K)) - 16);
  const Vec d = half_to_float(shift_right<16>(tail[3]));
  for (int k = 0; k < 16; ++k) {
    out.d[k] = d * (byte_as_float(biased(scales[k / 4]), k % 4) - set1(128));
    out.m[k] = set1(0);
  }
}

template <typename Block>
concept KBlock = requires(Block b) { b.low; };
template <typename Block>
constexpr bool kHasHighBits = requires(Block b) { b.high; };

template <KBlock Block, typename Source>
struct LaneFile<Block, Source> {
  static constexpr int kLowWords = sizeof(Block::low) / 4;
  static constexpr int kMaxHighWords = 16;

  Source source;
  IntVec low[kLowWords];  // these are written and read only if words do not lie in lanes
  IntVec high[kMaxHighWords];
  KScales<Block> scales;

  OCTAVO_INLINE void load(const Source& from) {
    source = from;
    if constexpr (!Source::kInLanes) {
      load_words(low, kLowWords, source, static_cast<int64_t>(offsetof(Block, low)));
      if constexpr (kHasHighBits<Block>) {
        static_assert(sizeof(Block::high) / 4 <= kMaxHighWords);
        load_words(high, sizeof(Block::high) / 4, source,
                   static_cast<int64_t>(offsetof(Block, high)));
      }
    }
    load_scales(scales, source);
  }

  // The words at byte `at` of a field of the block.
  OCTAVO_INLINE void words(IntVec (&out)[kGroups], const IntVec* loaded, size_t field,
                           int64_t at) const {
    if constexpr (Source::kInLanes) {
      for (int g = 0; g < kGroups; ++g) {
        out[g] = source.whole_word((static_cast<int64_t>(field) + at) / 4 + g);
      }
    } else {
      for (int g = 0; g < kGroups; ++g) out[g] = loaded[at / 4 + g];
    }
  }

  OCTAVO_INLINE LaneBlock<kParts<Block>> block(int s) const {
    constexpr const ops::KLayout& kBits = kLayout<Block>;
    LaneBlock<kParts<Block>> out;
    IntVec bits[kGroups];
    words(bits, low, offsetof(Block, low), kBits.low_at[s]);
    for (int g = 0; g < kGroups; ++g) {
      out.codes[g] = and_bytes(shift_right(bits[g], kBits.low_shift[s]), (1 << kBits.low_bits) - 1);
    }
    if constexpr (kHasHighBits<Block>) {
      words(bits, high, offsetof(Block, high), kBits.high_at[s]);
      for (int g = 0; g < kGroups; ++g) {
        const IntVec top =
            and_bytes(shift_right(bits[g], kBits.high_shift[s]), (1 << kBits.high_bits) - 1);
        out.codes[g] = add_int(out.codes[g], shift_left<kBits.low_bits>(top));
      }
    }
    for (int p = 0; p < kParts<Block>; ++p) {
      out.d[p] = scales.d[kParts<Block> * s + p];
      out.m[p] = scales.m[kParts<Block> * s + p];
    }
    return out;
  }
};

template <typename Source>
struct LaneFile<ops::BlockIQ4_XS, Source> : LanePlace<Source> {
  IntVec scales_low;
  IntVec scales_high;
  Vec d;

  OCTAVO_INLINE void load(const Source& from) {
    this->source = from;
    IntVec head[4];
    from.words(head, 0);
    d = half_to_float(head[0]);
    scales_high = shift_right<16>(head[0]);
    scales_low = head[1];
  }

  OCTAVO_INLINE LaneBlock<1> block(int s) const {
    LaneBlock<1> out;
    const IntVec low_scale = and_int(shift_right(scales_low, 4 * s), set1_int(15));
    const IntVec high_scale = and_int(shift_right(scales_high, 2 * s), set1_int(3));
    out.d[0] = d * (to_float(add_int(low_scale, shift_left<4>(high_scale))) - set1(32));
    out.m[0] = set1(0);
    unpack_nibbles(out.codes, this->source, 8 + 16 * s);
    for (IntVec& codes : out.codes) codes = biased(look_up(ops::kIQ4Levels, codes));
    return out;
  }
};

// Rows that have been unpacked, but not brought into lanes.
template <typename Source>
struct LaneFile<ops::KValues, Source> : LanePlace<Source> {
  OCTAVO_INLINE LaneBlock<2> block(int s) const {
    LaneBlock<2> out;
    load_words(out.codes, kGroups, this->source, ops::kBlockValues * s);
    for (IntVec& codes : out.codes) codes = biased(codes);
    // Four scales, of which two are those of this sub-block.
    IntVec scales[4];
    const auto at = static_cast<int64_t>(offsetof(ops::KValues, d));
    this->source.words(scales, at + 16 * (s / 2));
    for (int p = 0; p < 2; ++p) {
      out.d[p] = from_bits(scales[2 * (s % 2) + p]);
      out.m[p] = set1(0);
    }
    return out;
  }
};

}  // namespace
}  // namespace octavo::backends::cpu
