#include "bench/kernels/read_ceiling.h"

#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/bulk_copy.cuh"
#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/pdl.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kPiece = 16 * 1024;
constexpr int kStages = 6;
constexpr int kBlocksEach = 2;

// One thread copies; nobody looks at what arrives. With kScattered a piece is four of 4 KB in an
// order like that of pages that requests took and gave back.
template <bool kScattered>
__global__ void __launch_bounds__(32) read_kernel(const char* from, int64_t pieces) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ uint64_t barriers[kStages];
  pdl_launch_next();
  if (threadIdx.x != 0) return;
  for (uint64_t& barrier : barriers) mbarrier_init(shared_address(&barrier), 1);
  mbarrier_fence_init();
  int64_t put = blockIdx.x;
  const auto copy = [&](int stage) {
    const uint32_t barrier = shared_address(&barriers[stage]);
    mbarrier_arrive_expect(barrier, kPiece);
    if constexpr (kScattered) {
      for (int part = 0; part < 4; ++part) {
        // A permutation of the 4 KB pieces, for a prime that does not divide their number.
        const uint64_t piece = (4 * static_cast<uint64_t>(put) + part) * 1'000'003 % (4 * pieces);
        bulk_copy(shared_address(shared) + stage * kPiece + part * (kPiece / 4),
                  from + piece * (kPiece / 4), kPiece / 4, barrier);
      }
    } else {
      bulk_copy(shared_address(shared) + stage * kPiece, from + put * kPiece, kPiece, barrier);
    }
    put += gridDim.x;
  };
  for (int stage = 0; stage < kStages && put < pieces; ++stage) copy(stage);
  int stage = 0;
  uint32_t parity = 0;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    mbarrier_wait(shared_address(&barriers[stage]), parity);
    if (put < pieces) copy(stage);
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  pdl_wait();
#endif
}

template <bool kScattered>
void read(const void* from, int64_t bytes, cudaStream_t stream, bool overlap) {
  static const int multiprocessors = [] {
    int count = 0;
    check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
               "cudaDeviceGetAttribute");
    check_cuda(cudaFuncSetAttribute(read_kernel<kScattered>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * kPiece),
               "cudaFuncSetAttribute");
    return count;
  }();
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(kBlocksEach * multiprocessors)),
                             .block = dim3(32),
                             .shared_bytes = kStages * kPiece,
                             .overlap_previous = overlap};
  cuda::launch("read_kernel", read_kernel<kScattered>, shape, stream,
               static_cast<const char*>(from), bytes / kPiece);
}

}  // namespace

void launch_read(const void* from, int64_t bytes, cudaStream_t stream, bool overlap) {
  read<false>(from, bytes, stream, overlap);
}

void launch_scattered_read(const void* from, int64_t bytes, cudaStream_t stream, bool overlap) {
  read<true>(from, bytes, stream, overlap);
}

}  // namespace octavo::backends::cuda
