// The portable prefill kernels of head dimension 256.
#include "backends/cuda/tile/prefill_kernel.cuh"

namespace octavo::backends::cuda {

template cudaError_t launch_portable_prefill<PortableHd256<false>>(const PrefillParams&,
                                                                   const PortableInputs&, unsigned,
                                                                   cudaStream_t);
template cudaError_t launch_portable_prefill<PortableHd256<true>>(const PrefillParams&,
                                                                  const PortableInputs&, unsigned,
                                                                  cudaStream_t);

}  // namespace octavo::backends::cuda
