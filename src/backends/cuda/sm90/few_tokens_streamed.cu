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

using few_tokens::Stored;

// For the ring and the input: a block can have 227 KB; 128 may go to alignment.
template <int kBlocks, Stored kStored>
constexpr int kSharedBytes =
    227 * 1024 - 128 - static_cast<int>(sizeof(few_tokens::Shared<kBlocks, kStored>));

template <int kBlocks, Stored kStored>
LaunchShape launch_shape(unsigned clusters, unsigned cluster, size_t shared_bytes) {
  return {.grid = dim3(clusters * cluster),
          .block = dim3(few_tokens::Shared<kBlocks, kStored>::kThreads),
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
template <int kBlocks, Stored kStored>
std::array<int, 4> count_clusters() {
  const auto kernel = few_tokens::few_tokens_streamed_kernel<kBlocks, kStored>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kSharedBytes<kBlocks, kStored>),
             "cudaFuncSetAttribute");
  std::array<int, 4> clusters = {multiprocessors()};
  for (unsigned i = 1; i < clusters.size(); ++i) {
    const unsigned size = 1u << i;
    clusters[i] = std::max(
        1, most_active_clusters(
               kernel, launch_shape<kBlocks, kStored>(1, size, kSharedBytes<kBlocks, kStored>)));
  }
  return clusters;
}

template <int kBlocks, Stored kStored>
StreamPlan make_plan(const ProductCall& call) {
  return plan_stream(call.num_tiles, call.in_features, few_tokens::form_of(kStored), kBlocks,
                     multiprocessors(), kSharedBytes<kBlocks, kStored>);
}

template <int kBlocks, Stored kStored>
void run(const ProductCall& call, cudaStream_t stream) {
  const StreamPlan plan = make_plan<kBlocks, kStored>(call);
  OCTAVO_CHECK(plan.cluster > 0);
  static const std::array<int, 4> most = count_clusters<kBlocks, kStored>();
  const int index = std::bit_width(static_cast<unsigned>(plan.cluster)) - 1;
  const int clusters = std::min(call.num_tiles, most[static_cast<size_t>(index)]);
  constexpr StreamForm kForm = few_tokens::form_of(kStored);
  const int slice = (plan.steps - 1) / plan.cluster + 1;
  const int bytes = plan.ring * kForm.step_bytes + call.num_tokens * plan.input_pitch +
                    kBlocks * kStreamTokens * slice * kForm.sum_bytes;
  launch("few_tokens_streamed", few_tokens::few_tokens_streamed_kernel<kBlocks, kStored>,
         launch_shape<kBlocks, kStored>(static_cast<unsigned>(clusters),
                                        static_cast<unsigned>(plan.cluster),
                                        static_cast<size_t>(bytes)),
         stream, call, plan);
}

Stored stored_of(const ops::Weight& w) {
  if (w.layout == ops::PackedLayout::kInt4Tiles) {
    return w.group == 32   ? Stored::kInt4By32
           : w.group == 64 ? Stored::kInt4By64
                           : Stored::kInt4By128;
  }
  return w.dtype == DType::kF8E4M3 ? Stored::kE4M3 : Stored::kBF16;
}

template <int kBlocks, typename Visit>
auto with_stored(Stored stored, const Visit& visit) {
  switch (stored) {
    case Stored::kInt4By32:
      return visit.template operator()<kBlocks, Stored::kInt4By32>();
    case Stored::kInt4By64:
      return visit.template operator()<kBlocks, Stored::kInt4By64>();
    case Stored::kInt4By128:
      return visit.template operator()<kBlocks, Stored::kInt4By128>();
    case Stored::kE4M3:
      return visit.template operator()<kBlocks, Stored::kE4M3>();
    case Stored::kBF16:
      break;
  }
  return visit.template operator()<kBlocks, Stored::kBF16>();
}

// Calls visit.operator()<kBlocks, kStored>() with the token blocks that the call needs.
template <typename Visit>
auto with_kernel(const FewTokensArgs& args, const Visit& visit) {
  const Stored stored = stored_of(*args.w[0]);
  return args.x.rows <= kStreamTokens ? with_stored<1>(stored, visit)
                                      : with_stored<2>(stored, visit);
}

}  // namespace

bool streams_few_tokens(const FewTokensArgs& args) {
  const bool int4 = args.w[0]->layout == ops::PackedLayout::kInt4Tiles;
  if (args.x.rows > (int4 ? kStreamedInt4Tokens : kStreamedTokens)) return false;
  if (args.portable || !is_hopper()) return false;
  const ProductCall call = make_product_call(args, kStreamRows);
  return reads_sixteen_bytes(call) && with_kernel(args, [&]<int kBlocks, Stored kStored>() {
           return make_plan<kBlocks, kStored>(call).cluster > 0;
         });
}

bool rounds_itself(const FewTokensArgs& args) {
  return args.x.rows == 1 && args.x.cols <= kSelfRoundedFeatures && streams_few_tokens(args);
}

bool streams_e4m3(int64_t in_features) {
  if (!is_hopper() || in_features % 16 != 0 || in_features > INT32_MAX / 2) return false;
  const auto columns = static_cast<int>(in_features);
  return plan_stream(1, columns, kStreamE4M3, 1, multiprocessors(), kSharedBytes<1, Stored::kE4M3>)
             .cluster > 0;
}

bool streams_int4(int64_t in_features, int group) {
  if (!is_hopper() || in_features % 8 != 0 || in_features > INT32_MAX / 2) return false;
  const auto columns = static_cast<int>(in_features);
  return plan_stream(1, columns, stream_int4(group), 2, multiprocessors(),
                     kSharedBytes<2, Stored::kInt4By32>)
             .cluster > 0;
}

void multiply_few_tokens_streamed(const FewTokensArgs& args, cudaStream_t stream) {
  OCTAVO_CHECK(args.w[0]->dtype != DType::kF8E4M3 || args.rounded.codes != nullptr ||
               rounds_itself(args));
  with_kernel(args, [&]<int kBlocks, Stored kStored>() {
    FewTokensArgs part = args;
    for (int64_t first = 0; first < args.x.rows; first += kStreamedTokens) {
      const int64_t rows = std::min(kStreamedTokens, args.x.rows - first);
      part.x = args.x.row_range(first, rows);
      for (int i = 0; i < kMaxMatrices; ++i) {
        if (args.out[i].data != nullptr) part.out[i] = args.out[i].row_range(first, rows);
      }
      run<kBlocks, kStored>(make_product_call(part, kStreamRows), stream);
    }
  });
}

}  // namespace octavo::backends::cuda
