// The prefill kernels of head dimension 256.
#include "backends/cuda/sm90/attention_prefill_kernel.cuh"

namespace octavo::backends::cuda {

template cudaError_t launch_prefill<PrefillHd256<false>>(const TmaPrefillParams&,
                                                         const PrefillMaps&, int, cudaStream_t);
template cudaError_t launch_prefill<PrefillHd256<true>>(const TmaPrefillParams&, const PrefillMaps&,
                                                        int, cudaStream_t);
template cudaError_t launch_prefill<PrefillHd256Contiguous>(const TmaPrefillParams&,
                                                            const PrefillMaps&, int, cudaStream_t);

}  // namespace octavo::backends::cuda
