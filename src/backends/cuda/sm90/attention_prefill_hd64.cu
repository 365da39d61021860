// The prefill kernels of head dimension 64.
#include "backends/cuda/sm90/attention_prefill_kernel.cuh"

namespace octavo::backends::cuda {

template cudaError_t launch_prefill<PrefillHd64<false>>(const TmaPrefillParams&, const PrefillMaps&,
                                                        int, cudaStream_t);
template cudaError_t launch_prefill<PrefillHd64Short>(const TmaPrefillParams&, const PrefillMaps&,
                                                      int, cudaStream_t);
template cudaError_t launch_prefill<PrefillHd64<true>>(const TmaPrefillParams&, const PrefillMaps&,
                                                       int, cudaStream_t);

}  // namespace octavo::backends::cuda
