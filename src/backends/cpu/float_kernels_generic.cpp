#include "backends/cpu/float_kernels.inl"

namespace octavo::backends::cpu {
const FloatKernels kFloatGeneric = kFloatKernels;
}  // namespace octavo::backends::cpu
