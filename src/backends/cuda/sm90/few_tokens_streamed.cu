// Launches few_tokens_kernel.cuh: how a product is cut, and how many clusters there are.
#include "backends/cuda/sm90/few_tokens_kernel.cuh"

#include <algorithm>
#include <array>
#include <bit>

#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/hopper.h"
#include "backends/cuda/launch.h"

namespace octavo::backends::cuda {
namespace {

// For the ring and the input: a block can have 227 KB; 128 may go to alignment.
template <int kBlocks, bool kE4M3>
constexpr int kSharedBytes =
    227 * 1024 - 128 - static_cast<int>(sizeof(few_tokens::Shared<kBlocks, kE4M3>));

LaunchShape launch_shape(unsigned clusters, unsigned cluster, size_t shared_bytes) {
  return {.grid = dim3(clusters * cluster),
          .block = dim3(few_tokens::kThreads),
          .shared_bytes = shared_bytes,
          .overlap_previous = true,
          .cluster = cluster};
}

int multiprocessors() {
  int device = 0, count = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return count;
}

// Clusters of 1, 2, 4 and 8 blocks that the GPU holds at a time.
template <int kBlocks, bool kE4M3>
std::array<int, 4> count_clusters() {
  const auto kernel = few_tokens::few_tokens_streamed_kernel<kBlocks, kE4M3>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kSharedBytes<kBlocks, kE4M3>),
             "cudaFuncSetAttribute");
  std::array<int, 4> clusters = {multiprocessors()};
  for (unsigned i = 1; i < clusters.size(); ++i) {
    const unsigned size = 1u << i;
    clusters[i] = std::max(
        1, most_active_clusters(kernel, launch_shape(1, size, kSharedBytes<kBlocks, kE4M3>)));
  }
  return clusters;
}

template <int kBlocks, bool kE4M3>
StreamPlan make_plan(const ProductCall& call) {
  return plan_stream(call.num_tiles, call.in_features, kE4M3 ? 1 : 2, kBlocks, multiprocessors(),
                     kSharedBytes<kBlocks, kE4M3>);
}

template <int kBlocks, bool kE4M3>
void run(const ProductCall& call, cudaStream_t stream) {
  const StreamPlan plan = make_plan<kBlocks, kE4M3>(call);
  OCTAVO_CHECK(plan.cluster > 0);
  static const std::array<int, 4> most = count_clusters<kBlocks, kE4M3>();
  const int index = std::bit_width(static_cast<unsigned>(plan.cluster)) - 1;
  const int clusters = std::min(call.num_tiles, most[static_cast<size_t>(index)]);
  const int bytes = plan.ring * kStreamStepBytes + call.num_tokens * plan.input_pitch;
  launch("few_tokens_streamed", few_tokens::few_tokens_streamed_kernel<kBlocks, kE4M3>,
         launch_shape(static_cast<unsigned>(clusters), static_cast<unsigned>(plan.cluster),
                      static_cast<size_t>(bytes)),
         stream, call, plan);
}

// Calls visit.operator()<kBlocks, kE4M3>() with the token blocks that the call needs.
template <typename Visit>
auto with_kernel(const FewTokensArgs& args, const Visit& visit) {
  const bool one = args.x.rows <= kStreamTokens;
  if (args.w[0]->dtype == DType::kF8E4M3) {
    return one ? visit.template operator()<1, true>() : visit.template operator()<2, true>();
  }
  return one ? visit.template operator()<1, false>() : visit.template operator()<2, false>();
}

}  // namespace

bool streams_few_tokens(const FewTokensArgs& args) {
  if (args.portable || args.x.rows > kStreamedTokens || !is_hopper()) return false;
  const ProductCall call = make_product_call(args, kStreamRows);
  return reads_sixteen_bytes(call) && with_kernel(args, [&]<int kBlocks, bool kE4M3>() {
           return make_plan<kBlocks, kE4M3>(call).cluster > 0;
         });
}

bool rounds_itself(const FewTokensArgs& args) {
  return args.x.rows == 1 && args.x.cols <= kSelfRoundedFeatures && streams_few_tokens(args);
}

bool streams_e4m3(int64_t in_features) {
  if (!is_hopper() || in_features % 16 != 0 || in_features > INT32_MAX / 2) return false;
  const auto columns = static_cast<int>(in_features);
  return plan_stream(1, columns, 1, 1, multiprocessors(), kSharedBytes<1, true>).cluster > 0;
}

void multiply_few_tokens_streamed(const FewTokensArgs& args, cudaStream_t stream) {
  const ProductCall call = make_product_call(args, kStreamRows);
  OCTAVO_CHECK(args.w[0]->dtype == DType::kBF16 || args.rounded.codes != nullptr ||
               rounds_itself(args));
  with_kernel(args, [&]<int kBlocks, bool kE4M3>() { run<kBlocks, kE4M3>(call, stream); });
}

}  // namespace octavo::backends::cuda
