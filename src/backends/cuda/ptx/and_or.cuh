// (x & mask) | value in one instruction, as inline PTX.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

// With two constants the compiler makes two instructions of it: each holds one.
template <uint32_t kMask, uint32_t kValue>
__device__ inline uint32_t and_or(uint32_t x) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(x), "n"(kMask), "r"(kValue));
  return result;
}

}  // namespace octavo::backends::cuda
