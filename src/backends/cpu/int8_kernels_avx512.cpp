// int8 products with AVX-512 VNNI: vpdpbusd multiplies unsigned weight codes by signed activations,
// four of k to a lane, and sums them in 32 bits without saturation.
#include <immintrin.h>

#include "backends/cpu/int8_unpack.inl"

namespace octavo::backends::cpu {
namespace {

// 12 float and 12 integer sums, two panel vectors and a broadcast: 27 of 32 registers.
constexpr int kTileRows = 6;

void quantize(QuantizedBlock* dst, const float* x, int64_t blocks, const Int8Kernel& kernel) {
  for (int64_t b = 0; b < blocks; ++b, x += ops::kBlockValues, ++dst) {
    const Vec low = load(x);
    const Vec high = load(x + kLanes);
    const float top = _mm512_reduce_max_ps(max(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    if (!is_finite(top, _mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q) != 0)) {
      mark_not_finite(*dst);
      continue;
    }
    const Vec inverse = set1(top >= kLeastMagnitude ? 127.0f / top : 0);
    const IntVec a = round_to_int(low * inverse);
    const IntVec c = round_to_int(high * inverse);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst->codes), _mm512_cvtsepi32_epi8(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst->codes + kLanes), _mm512_cvtsepi32_epi8(c));
    dst->scale = top / 127.0f;
    dst->fine = kNoneFine;
    if (kernel.parts == 1) {
      set_sum(*dst, 0, _mm512_reduce_add_epi32(add_int(a, c)), kernel.zero);
    } else {
      set_sum(*dst, 0, _mm512_reduce_add_epi32(a), kernel.zero);
      set_sum(*dst, 1, _mm512_reduce_add_epi32(c), kernel.zero);
    }
  }
}

// dot + four codes of each lane times four of a row.
OCTAVO_INLINE IntVec add_dot(IntVec dot, IntVec codes, const int8_t* x) {
  int32_t four;
  memcpy(&four, x, sizeof(four));
  return _mm512_dpbusd_epi32(dot, codes, set1_int(four));
}

// One block of a panel times that of kRows rows, added to `sums`. kFine: of some rows it is fine.
template <int kRows, bool kMin, int kNumParts, bool kFine>
OCTAVO_INLINE void add_block(Vec (&sums)[kRows][2], const PanelBlock<kNumParts>& w,
                             const QuantizedBlock* x, int64_t x_stride) {
  constexpr int kPartGroups = kGroups / kNumParts;
  for (int p = 0; p < kNumParts; ++p) {
    IntVec dots[kRows][2];
    for (int r = 0; r < kRows; ++r) {
      dots[r][0] = dots[r][1] = set1_int(x[r * x_stride].corrections[p]);
    }
    for (int g = p * kPartGroups; g < (p + 1) * kPartGroups; ++g) {
      const IntVec w0 = _mm512_load_si512(w.codes[g]);
      const IntVec w1 = _mm512_load_si512(w.codes[g] + kLanes);
      for (int r = 0; r < kRows; ++r) {
        const int8_t* codes = x[r * x_stride].codes + 4 * g;
        dots[r][0] = add_dot(dots[r][0], w0, codes);
        dots[r][1] = add_dot(dots[r][1], w1, codes);
      }
    }
    for (int r = 0; kFine && r < kRows; ++r) {
      const QuantizedBlock& block = x[r * x_stride];
      if (block.fine <= 0) continue;
      const int8_t* upper = (&block)[block.fine].codes;
      for (int v = 0; v < 2; ++v) {
        IntVec dot = set1_int(0);
        for (int g = p * kPartGroups; g < (p + 1) * kPartGroups; ++g) {
          dot = add_dot(dot, _mm512_load_si512(w.codes[g] + v * kLanes), upper + 4 * g);
        }
        dots[r][v] = add_upper(dots[r][v], dot);
      }
    }
    for (int v = 0; v < 2; ++v) {
      const Vec d = load(w.d[p] + v * kLanes);
      const Vec m = kMin ? load(w.m[p] + v * kLanes) : set1(0);
      for (int r = 0; r < kRows; ++r) {
        const QuantizedBlock& block = x[r * x_stride];
        sums[r][v] = fma(to_float(dots[r][v]), d * set1(block.scale), sums[r][v]);
        if constexpr (kMin) sums[r][v] = fma(m, set1(block.sums[p]), sums[r][v]);
      }
    }
  }
}

template <int kRows, bool kMin, int kNumParts>
OCTAVO_INLINE void multiply_tile(const Int8Multiply& a, int64_t row) {
  const QuantizedBlock* x = a.x + row * a.x_stride;
  float* out = a.out + row * a.out_stride;
  Vec sums[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      sums[r][v] = a.accumulate ? load(out + r * a.out_stride + v * kLanes) : set1(0);
    }
  }
  const auto* w = static_cast<const PanelBlock<kNumParts>*>(a.panel);
  const auto* end = w + a.blocks;
  while (w < end) {
    const auto* fine = w + blocks_to_fine<kRows>(x, a.x_stride, end - w);
    for (; w < fine; ++w, ++x) add_block<kRows, kMin, kNumParts, false>(sums, *w, x, a.x_stride);
    if (w == end) break;
    add_block<kRows, kMin, kNumParts, true>(sums, *w, x, a.x_stride);
    ++w;
    ++x;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) store(out + r * a.out_stride + v * kLanes, sums[r][v]);
  }
}

template <int kRows, bool kMin, int kNumParts>
void multiply_rest(const Int8Multiply& a, int64_t row) {
  if constexpr (kRows > 0) {
    if (a.rows - row == kRows) {
      multiply_tile<kRows, kMin, kNumParts>(a, row);
    } else {
      multiply_rest<kRows - 1, kMin, kNumParts>(a, row);
    }
  }
}

template <bool kMin, int kNumParts>
void multiply(const Int8Multiply& a) {
  int64_t row = 0;
  for (; row + kTileRows <= a.rows; row += kTileRows) {
    multiply_tile<kTileRows, kMin, kNumParts>(a, row);
  }
  multiply_rest<kTileRows - 1, kMin, kNumParts>(a, row);
}

// 8 registers of codes, 8 integer and 8 float sums.
constexpr int kFewRows = 8;

// 32 values of kLanes weight rows times `kRows` rows of x, added to `sums`.
template <typename Block, int kRows>
OCTAVO_INLINE void add_products(Vec (&sums)[kRows], const LaneBlock<kParts<Block>>& w,
                                const QuantizedBlock* x, int64_t x_stride) {
  constexpr int kPartGroups = kGroups / kParts<Block>;
#pragma GCC unroll 8  // else sums are kept in memory
  for (int r = 0; r < kRows; ++r) {
    const QuantizedBlock& block = x[r * x_stride];
    for (int p = 0; p < kParts<Block>; ++p) {
      IntVec dot = set1_int(block.corrections[p]);
      for (int g = p * kPartGroups; g < (p + 1) * kPartGroups; ++g) {
        dot = add_dot(dot, w.codes[g], block.codes + 4 * g);
      }
      if (block.fine > 0) {
        const int8_t* upper = (&block)[block.fine].codes;
        IntVec upper_dot = set1_int(0);
        for (int g = p * kPartGroups; g < (p + 1) * kPartGroups; ++g) {
          upper_dot = add_dot(upper_dot, w.codes[g], upper + 4 * g);
        }
        dot = add_upper(dot, upper_dot);
      }
      sums[r] = fma(to_float(dot), w.d[p] * set1(block.scale), sums[r]);
      if constexpr (kFormat<Block>.has_min) {
        sums[r] = fma(w.m[p], set1(block.sums[p]), sums[r]);
      }
    }
  }
}

// Constant indexes spare packed weights the arithmetic of where their bits are, a quarter of the
// time of one row of Q4_K. Rows that lie apart take much longer to load than that.
template <typename Source, int kCount, typename Step>
OCTAVO_INLINE void for_each_index(const Step& step) {
  if constexpr (Source::kInLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) step(i);
  } else {
    for (int i = 0; i < kCount; ++i) step(i);
  }
}

template <typename Block, typename Source, int kRows>
void multiply_few_rows(const Int8Multiply& a, const Int8Weights& w) {
  const int64_t file_blocks = w.blocks / kSubBlocks<Block>;
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    Vec sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = set1(0);
    for (int64_t b = 0; b < file_blocks; ++b) {
      const Source source = Source::at(w, lane, b);
      LaneFile<Block, Source> file;
      file.load(source);
      for_each_index<Source, kSubBlocks<Block>>([&](int s) {
        source.prefetch(s);
        const QuantizedBlock* x = a.x + b * kSubBlocks<Block> + s;
        add_products<Block, kRows>(sums, file.block(s), x, a.x_stride);
      });
    }
    for (int r = 0; r < kRows; ++r) store(a.out + r * a.out_stride + lane, sums[r]);
  }
}

template <typename Block, int kRows = kFewRows>
void multiply_few(const Int8Multiply& a, const Int8Weights& w) {
  if constexpr (kRows > 0) {
    if (a.rows == kRows && w.rows != nullptr) {
      multiply_few_rows<Block, FileSource<Block>, kRows>(a, w);
    } else if (a.rows == kRows) {
      multiply_few_rows<Block, PackedSource<Block>, kRows>(a, w);
    } else {
      multiply_few<Block, kRows - 1>(a, w);
    }
  }
}

template <typename Block>
constexpr Int8Kernel kernel(Int8MultiplyFew few = multiply_few<Block>) {
  return {kFormat<Block>.zero,
          kParts<Block>,
          sizeof(PanelBlock<kParts<Block>>),
          unpack<Block>,
          multiply<kFormat<Block>.has_min, kParts<Block>>,
          few};
}

}  // namespace

const Int8Kernels kInt8Avx512Vnni = {
    kPanel,
    kFewRows,
    quantize,
    {kernel<ops::BlockQ4_0>(), kernel<ops::BlockQ4_1>(), kernel<ops::BlockQ5_0>(),
     kernel<ops::BlockQ5_1>(), kernel<ops::BlockQ8_0>(), kernel<ops::BlockQ2_K>(),
     kernel<ops::BlockQ3_K>(), kernel<ops::BlockQ4_K>(), kernel<ops::BlockQ5_K>(),
     kernel<ops::BlockQ6_K>(), kernel<ops::BlockIQ4_NL>(), kernel<ops::BlockIQ4_XS>(),
     kernel<ops::BlockMXFP4>()},
    kernel<ops::KValues>(nullptr),
};

}  // namespace octavo::backends::cpu
