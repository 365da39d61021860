// Where the elements of a tile lie in shared memory and in the registers of a warpgroup: the rules
// of wgmma and TMA for 16-bit operands with 128-byte swizzle. Plain C++, so that a CPU can check
// what kernels build on (tests/unit/backends/swizzle_test.cpp).
//
// A tile of [rows, columns] is cut into panels of 64 columns; a panel is rows x 128 bytes. In every
// 1024 bytes (8 rows) the 16-byte chunk at position c of row r holds chunk c ^ r.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define OCTAVO_HOST_DEVICE __host__ __device__
#else
#define OCTAVO_HOST_DEVICE
#endif

namespace octavo::backends::cuda {

inline constexpr int kPanelColumns = 64;        // bfloat16
inline constexpr int kPanelRowBytes = 128;      // of one row of a panel
inline constexpr int kSwizzleAtomBytes = 1024;  // 8 rows: what a panel's address is a multiple of

// The fields of a wgmma descriptor: start address, leading and stride byte offsets, and the
// swizzle of 128 bytes. Addresses in shared memory are below 256 KiB.
OCTAVO_HOST_DEVICE constexpr uint64_t swizzled_descriptor(uint32_t address, uint32_t leading_bytes,
                                                          uint32_t stride_bytes) {
  constexpr uint64_t kSwizzle128B = uint64_t{1} << 62;
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>(bytes & 0x3FFFF) >> 4; };
  return kSwizzle128B | field(address) | field(leading_bytes) << 16 | field(stride_bytes) << 32;
}

// The descriptor of an operand `bytes` further on. The upper half stays as it is, which a compiler
// would not know of a 64-bit sum.
OCTAVO_HOST_DEVICE constexpr uint64_t advance(uint64_t descriptor, uint32_t bytes) {
  const uint32_t low = static_cast<uint32_t>(descriptor) + (bytes >> 4);
  return (descriptor >> 32 << 32) | low;
}

// A K-major operand ([rows, k], rows of a tile): 8 rows follow each other after 1024 bytes; inside
// the 128 bytes of a row the hardware needs no leading offset.
OCTAVO_HOST_DEVICE constexpr uint64_t k_major_descriptor(uint32_t address) {
  return swizzled_descriptor(address, 16, kSwizzleAtomBytes);
}
// Bytes to add to the address for columns [16 * step, 16 * step + 16) of a tile of `rows` rows.
OCTAVO_HOST_DEVICE constexpr uint32_t k_major_step(int rows, int step) {
  constexpr int kStepsPerPanel = kPanelColumns / 16;
  return static_cast<uint32_t>(step / kStepsPerPanel * rows * kPanelRowBytes +
                               step % kStepsPerPanel * 32);
}

// An MN-major operand ([k, columns], k along the rows of a tile of `rows` rows): 8 of k follow each
// other after 1024 bytes, panels of 64 columns after rows * 128.
OCTAVO_HOST_DEVICE constexpr uint64_t mn_major_descriptor(uint32_t address, int rows) {
  return swizzled_descriptor(address, static_cast<uint32_t>(rows * kPanelRowBytes),
                             kSwizzleAtomBytes);
}
// Bytes to add to the address for rows [16 * step, 16 * step + 16).
OCTAVO_HOST_DEVICE constexpr uint32_t mn_major_step(int step) {
  return static_cast<uint32_t>(step * 16 * kPanelRowBytes);
}

// Element i of a thread's part of [64, n] accumulators; `thread` is 0..127.
OCTAVO_HOST_DEVICE constexpr int accumulator_row(int thread, int i) {
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
OCTAVO_HOST_DEVICE constexpr int accumulator_column(int thread, int i) {
  return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

// Element i = 0..7 (pair i / 2, low half first) of a thread's part of operand A, [64, 16] of
// bfloat16, in registers. Its rows and columns are those of accumulators i of two neighbouring
// groups of 8 columns: the accumulators of one product, rounded, are the operand of the next.
OCTAVO_HOST_DEVICE constexpr int operand_a_row(int thread, int i) {
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
OCTAVO_HOST_DEVICE constexpr int operand_a_column(int thread, int i) {
  return thread % 4 * 2 + i % 2 + i / 4 * 8;
}

}  // namespace octavo::backends::cuda
