#include "backends/cpu/float_kernels.inl"

namespace octavo::backends::cpu {
const FloatKernels kFloatAvx512 = kFloatKernels;
}  // namespace octavo::backends::cpu
