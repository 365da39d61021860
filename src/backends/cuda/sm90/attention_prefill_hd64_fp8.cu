// The prefill kernels of head dimension 64 for keys and values in E4M3.
#include "backends/cuda/sm90/attention_prefill_kernel.cuh"

namespace octavo::backends::cuda {

template cudaError_t launch_prefill<PrefillHd64Fp8<false>>(const TmaPrefillParams&,
                                                           const PrefillMaps&, int, cudaStream_t);
template cudaError_t launch_prefill<PrefillHd64Fp8<true>>(const TmaPrefillParams&,
                                                          const PrefillMaps&, int, cudaStream_t);

}  // namespace octavo::backends::cuda
