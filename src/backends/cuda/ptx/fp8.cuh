// E4M3 to half precision, two at a time; every E4M3 value is exact in it.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

// Two E4M3 values in the low half of `pair`; the lower byte becomes the low half.
__device__ inline uint32_t e4m3x2_to_f16x2(uint32_t pair) {
  uint32_t halves;
#if __CUDA_ARCH__ >= 890
  asm("{\n.reg .b16 both;\n"
      "cvt.u16.u32 both, %1;\n"
      "cvt.rn.f16x2.e4m3x2 %0, both;\n}\n"
      : "=r"(halves)
      : "r"(pair));
#else
  // Half precision has one bit of exponent more: shifted into place the value is 2^8 too small.
  const uint32_t apart = __byte_perm(pair, 0, 0x1404);  // bytes 0, b0, 0, b1 from the low end
  const uint32_t small = (apart >> 1 & 0x3F803F80) | (apart & 0x80008000);
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(small), "r"(0x5C005C00));  // 2^8 twice
#endif
  return halves;
}

}  // namespace octavo::backends::cuda
