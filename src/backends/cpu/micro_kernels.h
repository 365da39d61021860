// The seam between drivers (compiled for the baseline; they know ops, threads and workspace) and
// micro-kernels (compiled once per instruction set; they know registers). Plain structs of function
// pointers only: a file with wider instructions must not instantiate anything that the linker could
// pick for the baseline as well.
//
// Matrix products work on panels: `panel` outputs (weight rows, keys) side by side in the lanes of
// two vectors, so that every output sums over k by itself, in order. That makes a result the same
// for one row and for many. A panel is unpacked once and multiplied with all rows of a call.
#pragma once

#include <stdint.h>

#include "backends/cpu/attention_kernels.h"

namespace octavo::backends::cpu {

inline constexpr int kMaxPanel = 32;

// Block types that kernels unpack themselves, in the order of DType: q4_0 q4_1 q5_0 q5_1 q8_0 q2_k
// q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4.
inline constexpr int kNumUnpackedTypes = 13;

// out[i, 0..panel) = sum over k of x[i, k] * panel[k, 0..panel), for `rows` rows.
struct FloatMultiply {
  float* out;
  int64_t out_stride;
  const float* x;
  int64_t x_stride;
  int64_t rows;
  const float* panel;
  int64_t panel_stride;
  int64_t k;
  bool accumulate;          // go on from the sums in `out`
  int64_t lane_stride = 0;  // values between the panel's two vectors; 0: they lie side by side
};

// dst[i * panel + r] = value i of rows[r], i < count (whole blocks). There are `panel` row
// pointers.
using FloatUnpack = void (*)(float* dst, const void* const* rows, int64_t count);

// The same from rows that pack_lanes brought beside one another, of values of 16 bits; `packed` are
// those of the first `lanes` rows, the next are lane_stride bytes from there; an even `count`.
using FloatUnpackLanes = void (*)(float* dst, const void* packed, int64_t lane_stride,
                                  int64_t count);

struct FloatKernels {
  int panel;

  FloatUnpack unpack_f32;
  FloatUnpack unpack_f16;
  FloatUnpack unpack_bf16;
  FloatUnpack unpack_quantized[kNumUnpackedTypes];
  FloatUnpackLanes unpack_lanes_f16;
  FloatUnpackLanes unpack_lanes_bf16;

  void (*multiply)(const FloatMultiply&);

  AttentionKernel attention[kNumKvTypes];

  // scores[0, count) become exp(score - max), scores[count, padded) zero; gives maximum and sum.
  // count >= 1.
  void (*softmax)(float* scores, int64_t count, int64_t padded, float* max, float* sum);

  // out[i] = activation(gate[i]) * up[i]
  void (*silu_mul)(float* out, const float* gate, const float* up, int64_t count);
  void (*gelu_tanh_mul)(float* out, const float* gate, const float* up, int64_t count);

  // x[i] = cap * tanh(x[i] / cap)
  void (*softcap)(float* x, int64_t count, float cap);
};

extern const FloatKernels kFloatGeneric;
extern const FloatKernels kFloatAvx2;
extern const FloatKernels kFloatAvx512;

// Activations rounded to int8, 32 values to a block. A block has one part, or two of 16 values
// where the weights have a scale for each 16; of one part the second sum is not used. A fine block
// has codes of 15 bits, kUpperStep * upper + codes: the upper ones, of 8 bits, lie in another
// block.
struct QuantizedBlock {
  float scale;             // largest magnitude / 127; of a fine block a 128th of that
  float sums[2];           // scale * sum(codes) of a part: meets the minimum of types that have one
  int32_t corrections[2];  // -zero * sum(codes) of a part
  // Of a fine block how many blocks further on its upper codes are; of another, negative, how many
  // further on the row's next fine block is, or as many or more as the row has.
  int32_t fine;
  int8_t codes[32];  // round(x / scale), ties to even; of a fine block less kUpperStep * upper
};

inline constexpr int32_t kNoneFine = -0x40000000;
inline constexpr int kUpperStep = 128;

// A block whose values are all smaller counts as zero, so that 127 / largest stays finite. One with
// an infinity or a NaN has a NaN for its scale and sums, and zeros for codes.
inline constexpr float kLeastMagnitude = 1e-30f;

struct Int8Multiply {
  float* out;
  int64_t out_stride;
  const QuantizedBlock* x;
  int64_t x_stride;  // in blocks
  int64_t rows;
  const void* panel;
  int64_t blocks;
  bool accumulate;  // go on from the sums in `out`
};

// The weights of a panel: rows as they lie in the file, or `lanes` rows at a time as pack_lanes
// brings them beside one another. `next`, if not null, is as much memory again that will be wanted
// soon.
struct Int8Weights {
  const void* const* rows;  // null: packed
  int64_t blocks;           // of 32 values; whole blocks of the file
  const void* next;
  const void* packed;   // the blocks of the first `lanes` rows
  int64_t lane_stride;  // bytes from there to those of the next `lanes` rows
};

// Of a packed block's bytes those before its 32-bit words: small blocks begin with their scale,
// large ones end with it.
constexpr int64_t packed_lead(int64_t block_bytes) {
  return block_bytes < 64 ? block_bytes % 4 : 0;
}

// Unpacks and multiplies at once without a panel in memory, for 1 to `few_rows` rows of x; the same
// bits.
using Int8MultiplyFew = void (*)(const Int8Multiply&, const Int8Weights&);

// One block type. Weight codes are kept with an offset, code = value + zero, where the instruction
// wants unsigned operands.
struct Int8Kernel {
  int zero;
  int parts;              // 1 or 2
  int panel_block_bytes;  // of an unpacked panel, per block of 32 values
  void (*unpack)(void* panel, const Int8Weights&);
  void (*multiply)(const Int8Multiply&);
  Int8MultiplyFew multiply_few;
};

struct Int8Kernels {
  int panel;
  int few_rows;  // 0: multiply_few is null, as that of `unpacked` is always
  void (*quantize)(QuantizedBlock* dst, const float* x, int64_t blocks, const Int8Kernel& kernel);
  Int8Kernel by_type[kNumUnpackedTypes];
  Int8Kernel unpacked;  // rows of ops::KValues without minima
};

extern const Int8Kernels kInt8Generic;
extern const Int8Kernels kInt8Avx2;
extern const Int8Kernels kInt8Avx512Vnni;

// Activations and weights in bfloat16, two values of k to a 32-bit lane; sums in float.
struct Bf16Multiply {
  float* out;
  int64_t out_stride;
  const uint32_t* x;
  int64_t x_stride;  // in pairs
  int64_t rows;
  const uint32_t* panel;
  int64_t pairs;
  bool accumulate;
  int64_t lane_stride;  // of packed weights: words between the panel's two vectors; else 0
};

struct Bf16Kernels {
  int panel;
  int few_rows;  // that are multiplied in one go
  // dst[i] = bfloat16(src[i]); an odd count is padded with zero.
  void (*round)(uint32_t* dst, const float* src, int64_t count);
  // dst[p * panel + r] = values 2p and 2p + 1 of rows[r]; an odd count is padded with zero.
  void (*unpack)(uint32_t* dst, const void* const* rows, int64_t count);
  void (*multiply)(const Bf16Multiply&);
};

extern const Bf16Kernels kBf16Avx512;

}  // namespace octavo::backends::cpu
