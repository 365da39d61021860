#include "tests/gpu/wgmma_layout.h"

#include <cuda_bf16.h>

#include "backends/cuda/ptx/mbarrier.cuh"
#include "backends/cuda/ptx/tma.cuh"
#include "backends/cuda/ptx/wgmma.cuh"
#include "backends/cuda/tensor_map.h"
#include "backends/cuda/tile/swizzle.h"

namespace octavo::backends::cuda {
namespace {

struct Maps {
  CUtensorMap a, b;
};

// Brings a tile of kRows rows in boxes of `box_rows`.
template <int kRows, int kColumns>
__device__ void load(const CUtensorMap& map, uint32_t tile, uint32_t barrier, int box_rows) {
  for (int column = 0; column < kColumns; column += kPanelColumns) {
    for (int row = 0; row < kRows; row += box_rows) {
      tma_load_4d(tile + (column / kPanelColumns * kRows + row) * kPanelRowBytes, map, barrier,
                  column, row, 0, 0, l2_evict_first());
    }
  }
}

// out: [64, kN], a · bᵀ for a [64, kK] and b [kN, kK] (kMnMajor: a · b for b [kK, kN], with a in
// registers).
template <int kN, int kK, bool kMnMajor>
__global__ void product_kernel(float* out, const __nv_bfloat16* a, int box_rows,
                               const __grid_constant__ Maps maps) {
  constexpr int kBRows = kMnMajor ? kK : kN;
  constexpr int kBColumns = kMnMajor ? kN : kK;
  extern __shared__ uint8_t dynamic_shared[];
  __shared__ alignas(8) uint64_t barrier_storage;
  const uint32_t barrier = shared_address(&barrier_storage);
  const uint32_t tile_a = (shared_address(dynamic_shared) + 1023) / 1024 * 1024;
  const uint32_t tile_b = tile_a + (kMnMajor ? 0 : 64 * kK * 2);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_fence_init();
    mbarrier_arrive_expect(barrier, ((kMnMajor ? 0 : 64 * kK) + kN * kK) * 2);
    if constexpr (!kMnMajor) load<64, kK>(maps.a, tile_a, barrier, 64);
    load<kBRows, kBColumns>(maps.b, tile_b, barrier, box_rows);
  }
  __syncthreads();
  mbarrier_wait(barrier, 0);

  float d[kN / 2];
  for (float& value : d) value = 0.0f;
  uint32_t pairs[kK / 4];
  for (int i = 0; i < kK / 4; ++i) {
    const int row = operand_a_row(thread, i % 4 * 2);
    const int column = i / 4 * 16 + operand_a_column(thread, i % 4 * 2);
    pairs[i] = *reinterpret_cast<const uint32_t*>(a + row * kK + column);
  }
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kK / 16; ++step) {
    if constexpr (kMnMajor) {
      wgmma_pv_bf16(d, pairs + 4 * step, mn_major_descriptor(tile_b + mn_major_step(step), kK),
                    true);
    } else {
      wgmma_qk_bf16(d, k_major_descriptor(tile_a + k_major_step(64, step)),
                    k_major_descriptor(tile_b + k_major_step(kN, step)), step > 0);
    }
  }
  wgmma_commit();
  wgmma_wait<0>();
  for (int i = 0; i < kN / 2; ++i) {
    out[accumulator_row(thread, i) * kN + accumulator_column(thread, i)] = d[i];
  }
}

Result<CUtensorMap> matrix_map(const void* data, int rows, int columns, int box_rows) {
  const auto row_bytes = static_cast<uint64_t>(columns) * 2;
  TensorMapShape shape;
  shape.data = data;
  shape.sizes = {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), 1, 1};
  shape.strides_bytes = {row_bytes, row_bytes * static_cast<uint64_t>(rows),
                         row_bytes * static_cast<uint64_t>(rows)};
  shape.box = {kPanelColumns, static_cast<uint32_t>(box_rows), 1, 1};
  return make_tensor_map(shape);
}

template <int kN, int kK, bool kMnMajor>
std::string run(float* out, const uint16_t* a, const uint16_t* b, int box_rows) {
  const Result<CUtensorMap> map_a = matrix_map(a, 64, kK, 64);
  const Result<CUtensorMap> map_b =
      kMnMajor ? matrix_map(b, kK, kN, box_rows) : matrix_map(b, kN, kK, box_rows);
  if (!map_a.ok()) return map_a.status().message();
  if (!map_b.ok()) return map_b.status().message();
  constexpr int kBytes = (64 * kK + kN * kK) * 2 + 1024;
  const auto kernel = product_kernel<kN, kK, kMnMajor>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  kernel<<<1, 128, kBytes>>>(out, reinterpret_cast<const __nv_bfloat16*>(a), box_rows,
                             {map_a.value(), map_b.value()});
  const cudaError_t error = cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

}  // namespace

const std::vector<LayoutProbe>& layout_probes() {
  static const std::vector<LayoutProbe> probes = {
      {80, 256, false, run<80, 256, false>},   {128, 64, false, run<128, 64, false>},
      {128, 128, false, run<128, 128, false>}, {176, 128, false, run<176, 128, false>},
      {64, 128, true, run<64, 128, true>},     {128, 128, true, run<128, 128, true>},
      {128, 176, true, run<128, 176, true>},   {256, 80, true, run<256, 80, true>},
      {256, 64, true, run<256, 64, true>},
  };
  return probes;
}

}  // namespace octavo::backends::cuda
