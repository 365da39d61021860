// Launches few_tokens_wgmma_kernel.cuh: tensor maps, how many clusters there are, and what of their
// shared memory is the ring's.
#include "backends/cuda/sm90/few_tokens_wgmma_kernel.cuh"

#include <algorithm>

#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/few_tokens_wgmma.h"
#include "backends/cuda/hopper.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/tensor_map.h"

namespace octavo::backends::cuda {
namespace {

using few_tokens_wgmma::Params;

constexpr int kSharedBytes = 227 * 1024;

int multiprocessors() {
  int device = 0, count = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return count;
}

LaunchShape launch_shape(unsigned blocks, int threads, unsigned cluster) {
  return {.grid = dim3(blocks),
          .block = dim3(static_cast<unsigned>(threads)),
          .shared_bytes = kSharedBytes,
          .overlap_previous = true,
          .cluster = cluster};
}

// Rows of `columns` values, by boxes of a panel of `box_rows`. What lies beyond is zero.
CUtensorMap panel_map(const void* data, int columns, int64_t rows, int64_t stride, int box_rows) {
  const auto bytes = static_cast<uint64_t>(2 * stride);
  auto map =
      make_tensor_map({.data = data,
                       .sizes = {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), 1, 1},
                       .strides_bytes = {bytes, bytes, bytes},
                       .box = {kPanelColumns, static_cast<uint32_t>(box_rows), 1, 1}});
  check_op(map.status());
  return *map;
}

// Clusters that the GPU holds at a time; lets the kernel have its shared memory.
template <typename Config>
int most_clusters(int cluster) {
  const auto kernel = few_tokens_wgmma::few_tokens_wgmma_kernel<Config>;
  check_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
      "cudaFuncSetAttribute");
  if (cluster == 1) return multiprocessors();
  static const int most =
      std::max(1, most_active_clusters(
                      kernel, launch_shape(kWgmmaMaxCluster, Config::kThreads, kWgmmaMaxCluster)));
  return most;
}

template <typename Config>
void run(const FewTokensArgs& args, const WgmmaPlan& plan, cudaStream_t stream) {
  Params params = {};
  params.call = make_product_call(args, Config::kRows);
  const ProductCall& call = params.call;
  params.cluster = plan.cluster;
  params.steps = (call.in_features - 1) / (Config::kPanels * kPanelColumns) + 1;
  for (int i = 0; i < call.num_matrices; ++i) {
    const ProductMatrix& matrix = call.matrices[i];
    params.matrices[i] = panel_map(matrix.w, call.in_features, matrix.rows, call.in_features,
                                   call.gated ? Config::kRows / 2 : Config::kRows);
  }
  params.input =
      panel_map(call.x, call.in_features, call.num_tokens, call.x_stride, Config::kTokens);
  const int most = most_clusters<Config>(plan.cluster);
  // As few as need no more turns: they divide the tiles evenly.
  const int turns = (call.num_tiles - 1) / most + 1;
  const int clusters = (call.num_tiles - 1) / turns + 1;
  int exchanged = call.gated ? Config::kTileSums / 2 : 0;
  if (plan.cluster > 1) exchanged = Config::kTileSums * std::min(turns, 2);
  const int rest = kSwizzleAtomBytes + static_cast<int>(sizeof(few_tokens_wgmma::Shared)) +
                   exchanged * static_cast<int>(sizeof(float));
  params.ring = std::min(kWgmmaMaxRing, (kSharedBytes - rest) / Config::kStepBytes);
  OCTAVO_CHECK(params.ring >= 2 && params.steps >= plan.cluster);
  OCTAVO_CHECK(plan.cluster == 1 || (!call.gated && Config::kGroups == 1));
  launch("few_tokens_wgmma", few_tokens_wgmma::few_tokens_wgmma_kernel<Config>,
         launch_shape(static_cast<unsigned>(clusters * plan.cluster), Config::kThreads,
                      static_cast<unsigned>(plan.cluster)),
         stream, params);
}

template <int kTokens>
void run_tokens(const FewTokensArgs& args, const WgmmaPlan& plan, cudaStream_t stream) {
  if (plan.groups == 1) {
    run<few_tokens_wgmma::Config<kTokens, 1>>(args, plan, stream);
  } else {
    run<few_tokens_wgmma::Config<kTokens, 2>>(args, plan, stream);
  }
}

}  // namespace

bool multiplies_by_wgmma(const FewTokensArgs& args) {
  return !args.portable && args.x.rows > kStreamedTokens && args.x.rows <= kWgmmaTokens &&
         args.w[0]->dtype == DType::kBF16 && is_hopper() &&
         reads_sixteen_bytes(make_product_call(args, kWgmmaRows));
}

WgmmaPlan plan_wgmma(const FewTokensArgs& args) {
  return plan_wgmma_tiles([&](int rows) { return make_product_call(args, rows).num_tiles; },
                          static_cast<int>(args.x.cols), args.gated, multiprocessors());
}

void multiply_few_tokens_wgmma(const FewTokensArgs& args, const WgmmaPlan& plan,
                               cudaStream_t stream) {
  if (args.x.rows <= 32) return run_tokens<32>(args, plan, stream);
  if (args.x.rows <= 48) return run_tokens<48>(args, plan, stream);
  return run_tokens<64>(args, plan, stream);
}

}  // namespace octavo::backends::cuda
