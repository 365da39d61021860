// A value that the compiler does not see through.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

// What follows from it is worked out where it is needed, in place of being kept in registers that a
// loop has not got.
__device__ __forceinline__ uint32_t opaque(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

}  // namespace octavo::backends::cuda
