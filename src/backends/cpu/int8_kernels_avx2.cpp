// int8 products with AVX2. vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits
// with saturation, so that how many of its results may be added there depends on the codes.
#include <immintrin.h>

#include "backends/cpu/int8_unpack.inl"

namespace octavo::backends::cpu {
namespace {

// Four float and four integer sums, their 16-bit parts, a panel vector and temporaries: 16
// registers.
constexpr int kTileRows = 4;

OCTAVO_INLINE int32_t sum_lanes(IntVec v) {
  int32_t lanes[kLanes];
  memcpy(lanes, &v, sizeof(lanes));
  int32_t sum = 0;
  for (const int32_t lane : lanes) sum += lane;
  return sum;
}

void quantize(QuantizedBlock* dst, const float* x, int64_t blocks, const Int8Kernel& kernel) {
  constexpr int kVectors = ops::kBlockValues / kLanes;
  const Vec sign = set1(-0.0f);
  for (int64_t b = 0; b < blocks; ++b, x += ops::kBlockValues, ++dst) {
    Vec tops = set1(0);
    Vec unordered = set1(0);
    for (int i = 0; i < kVectors; ++i) {
      const Vec v = load(x + i * kLanes);
      tops = max(tops, _mm256_andnot_ps(sign, v));
      unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    }
    const float top = max_lanes(tops);
    if (!is_finite(top, _mm256_movemask_ps(unordered) != 0)) {
      mark_not_finite(*dst);
      continue;
    }
    const Vec inverse = set1(top >= kLeastMagnitude ? 127.0f / top : 0);
    IntVec values[kVectors];
    for (int i = 0; i < kVectors; ++i) values[i] = round_to_int(load(x + i * kLanes) * inverse);
    // The packs work within 128-bit halves; the permutation brings words back into order.
    const IntVec bytes = _mm256_packs_epi16(_mm256_packs_epi32(values[0], values[1]),
                                            _mm256_packs_epi32(values[2], values[3]));
    const IntVec order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<IntVec*>(dst->codes),
                        _mm256_permutevar8x32_epi32(bytes, order));
    dst->scale = top / 127.0f;
    dst->fine = kNoneFine;
    const int32_t first = sum_lanes(add_int(values[0], values[1]));
    const int32_t second = sum_lanes(add_int(values[2], values[3]));
    set_sum(*dst, 0, kernel.parts == 1 ? first + second : first, kernel.zero);
    set_sum(*dst, 1, second, kernel.zero);
  }
}

// How many products of pairs can be added in 16 bits: of 4-bit codes eight (8 * 2 * 15 * 127 =
// 30480), of 5-bit codes four (31496), of 6-bit codes two (32004), of 8-bit codes one, since their
// sign is moved (2 * 128 * 127 = 32512).
template <typename Block>
constexpr int groups_in_16_bits() {
  constexpr int kBits = kFormat<Block>.bits;
  constexpr int kFitting = kBits == 8 ? 1 : kBits == 6 ? 2 : kBits == 5 ? 4 : kGroups;
  constexpr int kPartGroups = kGroups / kParts<Block>;
  return kFitting < kPartGroups ? kFitting : kPartGroups;
}

template <typename Block>
OCTAVO_INLINE IntVec multiply_pairs(IntVec codes, IntVec x) {
  if constexpr (kFormat<Block>.bits == 8) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes));
  }
  return _mm256_maddubs_epi16(codes, x);
}

// Part `p` of one row's upper codes.
template <typename Block>
OCTAVO_INLINE IntVec upper_dots(const QuantizedBlock& x, const PanelBlock<kParts<Block>>& w, int p,
                                int lane) {
  constexpr int kRun = groups_in_16_bits<Block>();
  constexpr int kPartGroups = kGroups / kParts<Block>;
  const int8_t* upper = (&x)[x.fine].codes;
  IntVec dots = {};
  for (int run = p * kPartGroups; run < (p + 1) * kPartGroups; run += kRun) {
    IntVec pairs = {};
    for (int g = run; g < run + kRun; ++g) {
      int32_t four;
      memcpy(&four, upper + 4 * g, sizeof(four));
      const IntVec codes = _mm256_load_si256(reinterpret_cast<const IntVec*>(w.codes[g] + lane));
      pairs = _mm256_add_epi16(pairs, multiply_pairs<Block>(codes, set1_int(four)));
    }
    dots = add_int(dots, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return dots;
}

// One block of a panel times that of kRows rows, added to `sums`. kFine: of some rows it is fine.
template <typename Block, int kRows, bool kFine>
OCTAVO_INLINE void add_block(Vec (&sums)[kRows], const PanelBlock<kParts<Block>>& w,
                             const QuantizedBlock* x, int64_t x_stride, int lane) {
  constexpr int kRun = groups_in_16_bits<Block>();
  constexpr int kPartGroups = kGroups / kParts<Block>;
  for (int p = 0; p < kParts<Block>; ++p) {
    IntVec dots[kRows];
    for (int r = 0; r < kRows; ++r) dots[r] = set1_int(x[r * x_stride].corrections[p]);
    for (int run = p * kPartGroups; run < (p + 1) * kPartGroups; run += kRun) {
      IntVec pairs[kRows] = {};
      for (int g = run; g < run + kRun; ++g) {
        const IntVec codes = _mm256_load_si256(reinterpret_cast<const IntVec*>(w.codes[g] + lane));
        for (int r = 0; r < kRows; ++r) {
          int32_t four;
          memcpy(&four, x[r * x_stride].codes + 4 * g, sizeof(four));
          const IntVec product = multiply_pairs<Block>(codes, set1_int(four));
          pairs[r] = g == run ? product : _mm256_add_epi16(pairs[r], product);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        dots[r] = add_int(dots[r], _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1)));
      }
    }
    for (int r = 0; kFine && r < kRows; ++r) {
      const QuantizedBlock& block = x[r * x_stride];
      if (block.fine <= 0) continue;
      dots[r] = add_upper(dots[r], upper_dots<Block>(block, w, p, lane));
    }
    const Vec d = load(w.d[p] + lane);
    for (int r = 0; r < kRows; ++r) {
      const QuantizedBlock& block = x[r * x_stride];
      sums[r] = fma(to_float(dots[r]), d * set1(block.scale), sums[r]);
      if constexpr (kFormat<Block>.has_min) {
        sums[r] = fma(load(w.m[p] + lane), set1(block.sums[p]), sums[r]);
      }
    }
  }
}

template <typename Block, int kRows>
OCTAVO_INLINE void multiply_tile(const Int8Multiply& a, int64_t row, int lane) {
  const QuantizedBlock* x = a.x + row * a.x_stride;
  float* out = a.out + row * a.out_stride + lane;
  Vec sums[kRows];
  for (int r = 0; r < kRows; ++r) {
    sums[r] = a.accumulate ? load(out + r * a.out_stride) : set1(0);
  }
  const auto* w = static_cast<const PanelBlock<kParts<Block>>*>(a.panel);
  const auto* end = w + a.blocks;
  while (w < end) {
    const auto* fine = w + blocks_to_fine<kRows>(x, a.x_stride, end - w);
    for (; w < fine; ++w, ++x) add_block<Block, kRows, false>(sums, *w, x, a.x_stride, lane);
    if (w == end) break;
    add_block<Block, kRows, true>(sums, *w, x, a.x_stride, lane);
    ++w;
    ++x;
  }
  for (int r = 0; r < kRows; ++r) store(out + r * a.out_stride, sums[r]);
}

template <typename Block>
void multiply(const Int8Multiply& a) {
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    int64_t row = 0;
    for (; row + kTileRows <= a.rows; row += kTileRows) {
      multiply_tile<Block, kTileRows>(a, row, lane);
    }
    for (; row < a.rows; ++row) multiply_tile<Block, 1>(a, row, lane);
  }
}

template <typename Block>
constexpr Int8Kernel kernel() {
  constexpr int kBytes = sizeof(PanelBlock<kParts<Block>>);
  // Bytes become signed again: the products move the sign to the activations.
  if constexpr (kFormat<Block>.bits == 8) {
    constexpr auto kSignBits = static_cast<int32_t>(0x80808080);
    return {0, kParts<Block>, kBytes, unpack<Block, kSignBits>, multiply<Block>, nullptr};
  }
  return {kFormat<Block>.zero, kParts<Block>, kBytes, unpack<Block>, multiply<Block>, nullptr};
}

}  // namespace

const Int8Kernels kInt8Avx2 = {
    kPanel,
    0,
    quantize,
    {kernel<ops::BlockQ4_0>(), kernel<ops::BlockQ4_1>(), kernel<ops::BlockQ5_0>(),
     kernel<ops::BlockQ5_1>(), kernel<ops::BlockQ8_0>(), kernel<ops::BlockQ2_K>(),
     kernel<ops::BlockQ3_K>(), kernel<ops::BlockQ4_K>(), kernel<ops::BlockQ5_K>(),
     kernel<ops::BlockQ6_K>(), kernel<ops::BlockIQ4_NL>(), kernel<ops::BlockIQ4_XS>(),
     kernel<ops::BlockMXFP4>()},
    kernel<ops::KValues>(),
};

}  // namespace octavo::backends::cpu
