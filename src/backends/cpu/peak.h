// What the instructions that kernels multiply with can do at most: loops that touch nothing but
// registers, one for each arithmetic and instruction set. Kernels are measured against them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/backend.h"
#include "backends/cpu/isa.h"

namespace octavo::backends::cpu {

struct PeakLoop {
  std::string_view name;  // "int8 vpdpbusd"
  Arithmetic arithmetic;
  Isa isa;                // the least set that can run it
  int64_t multiply_adds;  // of one round
  void (*run)(int64_t rounds);
};

std::span<const PeakLoop> peak_loops();

// The loop for a kernel that computes in `arithmetic` with the instructions of `isa`: that of the
// widest set that `isa` includes. Without products in bfloat16 those are computed in float32.
const PeakLoop& peak_loop(Arithmetic arithmetic, Isa isa);

}  // namespace octavo::backends::cpu
