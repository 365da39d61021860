// Matrices of 4-bit codes to bfloat16: a warp takes pieces, a lane its codes of each, as products
// have them (few_tokens_int4.cuh).
#include "backends/cuda/launch.h"
#include "backends/cuda/linear_int4.h"
#include "backends/cuda/sm90/few_tokens_int4.cuh"
#include "backends/cuda/tile/int4_tiles.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kWarps = 8;

// The piece blockIdx.y * kWarps + warp of the half tile blockIdx.x.
template <int kGroup>
__global__ void __launch_bounds__(32 * kWarps)
    decode_int4_kernel(__nv_bfloat16* out, const char* half_tiles, int64_t half_tile_bytes,
                       int pieces, int cols, int rows) {
  const int piece = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(blockIdx.x) * kInt4Rows + lane / 4;
  if (piece >= pieces) return;
  const char* from =
      half_tiles + blockIdx.x * half_tile_bytes + piece * few_tokens::kInt4PieceBytes<kGroup>;
  const uint4 four = *reinterpret_cast<const uint4*>(from + 16 * lane);
  const uint32_t codes[4] = {four.x, four.y, four.z, four.w};
  const auto* words =
      reinterpret_cast<const uint32_t*>(from + kInt4Codes) + lane / 4 * (kInt4Columns / kGroup);
  if (row >= rows) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int col = piece * kInt4Columns + 32 * i + lane % 4 * 8;
    if (col >= cols) return;
    const few_tokens::Int4Word word(words[i / (kGroup / 32)]);
    uint32_t pairs[4];
    few_tokens::int4_pairs(pairs, codes[i]);
    uint4 result;
    auto* to = reinterpret_cast<__nv_bfloat162*>(&result);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 two = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pairs[p]));
      to[p] =
          __floats2bfloat162_rn((two.x - word.zero) * word.scale, (two.y - word.zero) * word.scale);
    }
    *reinterpret_cast<uint4*>(out + static_cast<int64_t>(row) * cols + col) = result;
  }
}

}  // namespace

void decode_int4(void* out, const ops::Weight& w, int64_t first, int64_t count,
                 cudaStream_t stream) {
  const Int4Tiles tiles = int4_tiles(w);
  const auto kernel = tiles.group == 32   ? decode_int4_kernel<32>
                      : tiles.group == 64 ? decode_int4_kernel<64>
                                          : decode_int4_kernel<128>;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>((count - 1) / kInt4Rows + 1),
                                          static_cast<unsigned>((tiles.pieces() - 1) / kWarps + 1)),
                             .block = dim3(32 * kWarps)};
  launch("decode_int4", kernel, shape, stream, static_cast<__nv_bfloat16*>(out),
         reinterpret_cast<const char*>(w.data) + first / kInt4Rows * tiles.half_tile_bytes(),
         tiles.half_tile_bytes(), static_cast<int>(tiles.pieces()), static_cast<int>(tiles.cols),
         static_cast<int>(count));
}

}  // namespace octavo::backends::cuda
