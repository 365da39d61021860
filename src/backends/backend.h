// Backend: a device and the ops that run on it, resolved for this machine and for the arithmetic
// that was asked for.
#pragma once

#include <string>

#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::backends {

// How matrix products are computed. kAuto: the fastest that the backend has for each weight type.
enum class Arithmetic {
  kAuto,
  kFloat32,   // weights decoded, activations and sums in float32
  kBFloat16,  // activations rounded to bfloat16, sums in float32
  kInt8,      // activations rounded to int8 in blocks of 32, integer dot products
};
const char* arithmetic_name(Arithmetic arithmetic);

// What becomes of weights when they are packed.
enum class Packing {
  kFast,      // the layout that is computed fastest
  kAsStored,  // host backends: views of the tensors, where they lie in the file
  kNone,      // they stay unread: nothing is to be computed
};

struct Backend {
  std::string name;            // "cpu", "cuda", "ref"
  std::string kernels;         // the kernel set, e.g. "avx512_vnni"
  std::string kernels_reason;  // why it was chosen
  Arithmetic arithmetic;       // what kAuto became: for quantised weights
  int compute_capability = 0;  // of the GPU, 90 for sm_90; 0: there is none
  Device* device = nullptr;    // lives as long as the process
  ops::Ops ops;
};

}  // namespace octavo::backends
