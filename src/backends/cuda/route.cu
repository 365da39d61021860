// Which experts the tokens of a batch go to.
#include <algorithm>

#include "backends/cuda/launch.h"
#include "backends/cuda/ops_cuda.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kMaxExperts = 1024;
constexpr int kMaxTopK = 32;
constexpr float kNothing = -INFINITY;

// NaN must not upset the order.
__device__ float key_of(float logit) {
  return isnan(logit) ? kNothing : logit;
}

// A warp ranks the experts of a token: top_k times the largest that is left, of equals the first.
__global__ void __launch_bounds__(32) rank_kernel(ops::RouteArgs args, const float* logits,
                                                  int64_t stride, int32_t* chosen, float* weights) {
  const int64_t token = blockIdx.x;
  const auto lane = static_cast<int>(threadIdx.x);
  const auto num_experts = static_cast<int>(args.routing.num_experts);
  const auto top_k = static_cast<int>(args.routing.top_k);
  logits += token * stride;
  chosen += token * top_k;
  float last_key = INFINITY;
  int last = -1;
  for (int j = 0; j < top_k; ++j) {
    float best_key = kNothing;
    int best = num_experts;
    for (int e = lane; e < num_experts; e += 32) {
      const float key = key_of(logits[e]);
      const bool left = key < last_key || (key == last_key && e > last);
      if (left && (best == num_experts || key > best_key)) {
        best_key = key;
        best = e;
      }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      const float key = __shfl_xor_sync(~0u, best_key, lanes);
      const int expert = __shfl_xor_sync(~0u, best, lanes);
      const bool theirs = expert < num_experts && (best == num_experts || key > best_key ||
                                                   (key == best_key && expert < best));
      if (theirs) {
        best_key = key;
        best = expert;
      }
    }
    last_key = best_key;
    last = best;
    if (lane == 0) chosen[j] = best;
  }
  __syncwarp();
  if (lane >= top_k) return;
  const float logit = logits[chosen[lane]];
  float weight = 0.0f;
  if (args.routing.score == ops::RouterScore::kSigmoid) {
    weight = 1.0f / (1.0f + expf(-logit));
  } else {
    const bool over_all = args.routing.score == ops::RouterScore::kSoftmax;
    float sum = 0.0f;
    for (int i = 0; i < (over_all ? num_experts : top_k); ++i) {
      sum += expf(logits[over_all ? i : chosen[i]] - logit);
    }
    weight = 1.0f / sum;
  }
  weights[token * top_k + lane] = weight;
}

// A thread an expert: counts its rows, then gives them their places in the order of the tokens.
__global__ void __launch_bounds__(kMaxExperts)
    place_kernel(ops::ExpertPlan plan, const int32_t* chosen, const float* weights, int num_choices,
                 int num_experts, int top_k) {
  __shared__ int32_t counts[kMaxExperts];
  const auto expert = static_cast<int>(threadIdx.x);
  int count = 0;
  for (int i = 0; i < num_choices; ++i) count += chosen[i] == expert ? 1 : 0;
  counts[expert] = count;
  __syncthreads();
  int slot = 0;
  for (int e = 0; e < expert; ++e) slot += counts[e];
  if (expert >= num_experts) return;
  plan.offsets[expert] = slot;
  if (expert == num_experts - 1) plan.offsets[num_experts] = slot + count;
  for (int i = 0; i < num_choices; ++i) {
    if (chosen[i] != expert) continue;
    plan.row_ids[slot] = i / top_k;
    plan.slot_weights[slot] = weights[i];
    plan.slots[i] = slot++;
  }
}

}  // namespace

void route(ops::ExecContext& ctx, const ops::RouteArgs& a) {
  const ops::Routing& routing = a.routing;
  if (routing.num_experts > kMaxExperts || routing.top_k > kMaxTopK) {
    check_op(unsupported("more than 1024 experts, or more than 32 for a token, on a GPU"));
  }
  if (a.logits.rows == 0) return;
  const int64_t num_choices = a.logits.rows * routing.top_k;
  OCTAVO_CHECK(8 * num_choices <= ctx.workspace_bytes && a.logits.dtype == DType::kF32);
  auto* chosen = reinterpret_cast<int32_t*>(ctx.workspace);
  auto* weights = reinterpret_cast<float*>(chosen + num_choices);
  const LaunchShape ranks = {.grid = dim3(static_cast<unsigned>(a.logits.rows)), .block = dim3(32)};
  launch("rank_experts", rank_kernel, ranks, stream_of(ctx), a,
         static_cast<const float*>(a.logits.data), a.logits.stride, chosen, weights);
  const auto threads = static_cast<unsigned>((routing.num_experts + 31) / 32 * 32);
  launch("place_experts", place_kernel, {.grid = dim3(1), .block = dim3(threads)}, stream_of(ctx),
         a.plan, chosen, weights, static_cast<int>(num_choices),
         static_cast<int>(routing.num_experts), static_cast<int>(routing.top_k));
}

}  // namespace octavo::backends::cuda
