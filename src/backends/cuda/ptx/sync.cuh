// How blocks tell each other that something is written, as inline PTX.
//
// The memory model's way is a fence. But a fence waits for every copy of the multiprocessor that is
// under way, which in a kernel that streams takes microseconds (H200: 5 to 9). So what others shall
// read is written by atomics: one returns from the L2 cache, where all of the GPU read with ld.cg.
#pragma once

#include <cstdint>

namespace octavo::backends::cuda {

// Writes `value`. When what this returns is there (wait_for), so is the value.
__device__ inline uint64_t exchange(uint64_t* address, uint64_t value) {
  uint64_t old;
  asm volatile("atom.relaxed.gpu.global.exch.b64 %0, [%1], %2;"
               : "=l"(old)
               : "l"(address), "l"(value)
               : "memory");
  return old;
}

// Uses `value`, whatever it is, so that what follows waits for it.
__device__ inline void wait_for(uint64_t value) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.eq.u64 p, %0, 0x5A5A5A5A5A5A5A5A;\n"
      "@p nanosleep.u32 1;\n"
      "}\n" ::"l"(value)
      : "memory");
}

// The value before; `last` becomes 0.
__device__ inline uint32_t atomic_inc(uint32_t* address, uint32_t last) {
  uint32_t old;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(last)
               : "memory");
  return old;
}

}  // namespace octavo::backends::cuda
