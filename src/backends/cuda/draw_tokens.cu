// Draws tokens where the logits are, by the rule of ops/draw_args.h. A row has a cluster of blocks,
// of one block before sm_90 and where there are many rows: each reads its share of the row for the
// maxima and sums of all, and does the little that follows itself. Sums and exponentials are the
// host's to the last bit: no product is contracted into a sum.
#include <array>

#include "backends/cuda/device_cuda.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ptx/cluster.cuh"
#include "backends/cuda/tile/values.cuh"

namespace octavo::backends::cuda {
namespace {

using ops::DrawKind;
using ops::RowDraw;

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kBlock = ops::kDrawBlock;
constexpr int kGroup = ops::kDrawGroup;
constexpr int kPerLane = kBlock / 32;
constexpr unsigned kMaxCluster = 8;
constexpr int kMaxBlocks = 1536;      // a vocabulary of 393,216; the host draws from larger ones
constexpr int kMaxCandidates = 2048;  // of more, too
static_assert(kMaxBlocks / kGroup <= kThreads && kMaxBlocks <= kMaxCandidates);

struct Shared {
  float maxima[kMaxBlocks];   // NaN of blocks that have one
  float sums[2][kMaxBlocks];  // in turn: others may write the next ones while these are read
  double groups[kMaxBlocks / kGroup];
  uint64_t keys[kMaxCandidates];
  float weights[kMaxCandidates];
  float warp_maxima[kWarps];
  double total;
  int count;
  int chosen;
};

// ops::draw_weight, spelled out so that nothing is contracted.
__device__ float draw_weight(float x) {
  const float shifted = __fadd_rn(__fmul_rn(x, ops::kExpLog2E), ops::kExpRound);
  const float n = __fsub_rn(shifted, ops::kExpRound);
  const float r =
      __fsub_rn(__fsub_rn(x, __fmul_rn(n, ops::kExpLn2High)), __fmul_rn(n, ops::kExpLn2Low));
  constexpr float kTerms[] = {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  float e = 1.0f / 720;
#pragma unroll
  for (const float term : kTerms) e = __fadd_rn(__fmul_rn(e, r), term);
  const unsigned exponent = __float_as_uint(shifted) - __float_as_uint(ops::kExpRound);
  return __fmul_rn(e, __uint_as_float((exponent + 127) << 23));
}

template <typename Value>
__device__ int walk_to(double target, int begin, int end, double& before, const Value& value) {
  int chosen = begin;
  double own = value(begin);
  for (int i = begin + 1; i < end && __dadd_rn(before, own) <= target; ++i) {
    const double next = value(i);
    if (next == 0) continue;
    before = __dadd_rn(before, own);
    own = next;
    chosen = i;
  }
  return chosen;
}

// Sorts in the order of candidates: the larger logit first, of equal ones that with the lower id.
__device__ uint64_t key_of(float logit, int id) {
  const unsigned bits = __float_as_uint(__fadd_rn(logit, 0.0f));  // -0 becomes 0
  const unsigned descending = (bits >> 31) != 0 ? bits : ~bits & 0x7FFFFFFF;
  return static_cast<uint64_t>(descending) << 32 | static_cast<unsigned>(id);
}

__device__ int id_of(uint64_t key) {
  return static_cast<int>(static_cast<unsigned>(key));
}

__device__ float logit_of(uint64_t key) {
  const auto descending = static_cast<unsigned>(key >> 32);
  return __uint_as_float((descending >> 31) != 0 ? descending : ~descending & 0x7FFFFFFF);
}

// All threads of a cluster call each function together, but where a comment says otherwise.
class RowDrawer {
 public:
  __device__ RowDrawer(Shared& shared, int rank, int cluster, const float* logits, int size,
                       const RowDraw& draw)
      : s_(shared),
        rank_(rank),
        cluster_(cluster),
        logits_(logits),
        size_(size),
        num_blocks_((size + kBlock - 1) / kBlock),
        draw_(draw) {}

  __device__ int token() {
    if (draw_.kind == DrawKind::kNone || num_blocks_ > kMaxBlocks || !read()) return -1;
    if (draw_.kind == DrawKind::kGreedy) return argmax();
    if (draw_.top_k > 0 && draw_.top_k < size_) return draw_from_top_k();
    const double sum = sum_from(draw_.least);
    if (draw_.top_p < 1.0f) return draw_from_top_p(__dmul_rn(sum, draw_.top_p));
    return find(__dmul_rn(draw_.share, sum));
  }

 private:
  __device__ int warp() const { return static_cast<int>(threadIdx.x) / 32; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ float scaled(float logit) const {
    return __fmul_rn(__fsub_rn(logit, max_), draw_.scale);
  }
  __device__ float weight(float logit) const {
    const float x = scaled(logit);
    return x >= ops::kLeastScaled ? draw_weight(x) : 0.0f;
  }

  // Lane l of a warp has values l, l + 32, …
  __device__ void load(int block, float (&values)[kPerLane]) const {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = block * kBlock + 32 * j + lane();
      values[j] = i < size_ ? logits_[i] : -INFINITY;
    }
  }

  // Of the row's blocks this one's warps take first_block(), + block_step(), …
  __device__ int first_block() const { return rank_ * kWarps + warp(); }
  __device__ int block_step() const { return cluster_ * kWarps; }

  // Makes lane 0's value *to in all blocks, at the next sync().
  __device__ void share(float* to, float value) const {
#if __CUDA_ARCH__ >= 900
    if (cluster_ > 1) {
      value = __shfl_sync(~0u, value, 0);
      const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
      if (lane() < cluster_) {
        cluster_store(cluster_address(address, static_cast<uint32_t>(lane())), value);
      }
      return;
    }
#endif
    if (lane() == 0) *to = value;
  }

  __device__ void sync() const {
#if __CUDA_ARCH__ >= 900
    if (cluster_ > 1) {
      cluster_arrive();
      cluster_wait();
      return;
    }
#endif
    __syncthreads();
  }

  // Finds the maxima of blocks and of all; whether a token can be drawn.
  __device__ bool read() {
    sync();  // all blocks are there
#pragma unroll 2
    for (int b = first_block(); b < num_blocks_; b += block_step()) {
      float values[kPerLane];
      load(b, values);
      float largest = -INFINITY;
      bool has_nan = false;
#pragma unroll
      for (const float value : values) {
        has_nan |= isnan(value);
        largest = fmaxf(largest, value);
      }
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
      }
      share(&s_.maxima[b], __any_sync(~0u, has_nan) ? NAN : largest);
    }
    sync();
    float largest = -INFINITY;
    bool has_nan = false;
    for (int b = static_cast<int>(threadIdx.x); b < num_blocks_; b += kThreads) {
      has_nan |= isnan(s_.maxima[b]);
      largest = fmaxf(largest, s_.maxima[b]);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
    }
    if (lane() == 0) s_.warp_maxima[warp()] = largest;
    if (__syncthreads_or(has_nan) != 0) return false;
    max_ = s_.warp_maxima[0];
    for (int w = 1; w < kWarps; ++w) max_ = fmaxf(max_, s_.warp_maxima[w]);
    return isfinite(max_);
  }

  __device__ int argmax() {
    if (threadIdx.x == 0) s_.chosen = size_;
    __syncthreads();
    for (int b = warp(); b < num_blocks_; b += kWarps) {
      if (s_.maxima[b] != max_) continue;
      float values[kPerLane];
      load(b, values);
      for (int j = 0; j < kPerLane; ++j) {
        if (values[j] == max_) atomicMin(&s_.chosen, b * kBlock + 32 * j + lane());
      }
    }
    __syncthreads();
    return s_.chosen;
  }

  // The sum of the weights of those with a scaled value of at least `bound`.
  __device__ double sum_from(float bound) {
    bound_ = bound;
    turn_ ^= 1;
    float* const sums = s_.sums[turn_];
#pragma unroll 2
    for (int b = first_block(); b < num_blocks_; b += block_step()) {
      share(&sums[b], scaled(s_.maxima[b]) >= bound ? block_sum(b) : 0.0f);
    }
    sync();
    const int num_groups = (num_blocks_ + kGroup - 1) / kGroup;
    if (static_cast<int>(threadIdx.x) < num_groups) {
      const int first = static_cast<int>(threadIdx.x) * kGroup;
      double sum = 0.0;
      for (int b = first; b < min(num_blocks_, first + kGroup); ++b) {
        sum = __dadd_rn(sum, sums[b]);
      }
      s_.groups[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      double total = 0.0;
      for (int g = 0; g < num_groups; ++g) total = __dadd_rn(total, s_.groups[g]);
      s_.total = total;
    }
    __syncthreads();
    return s_.total;
  }

  // By one warp; lane 0 has the result.
  __device__ float block_sum(int block) const {
    float values[kPerLane];
    load(block, values);
#pragma unroll
    for (float& value : values) {
      const float x = scaled(value);
      value = x >= bound_ ? draw_weight(x) : 0.0f;
    }
#pragma unroll
    for (int half = kPerLane / 2; half > 0; half /= 2) {
#pragma unroll
      for (int j = 0; j < half; ++j) values[j] = __fadd_rn(values[j], values[j + half]);
    }
    float sum = values[0];
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      sum = __fadd_rn(sum, __shfl_down_sync(~0u, sum, lanes));
    }
    return sum;
  }

  // The token that `target`, less than the last sum, belongs to.
  __device__ int find(double target) {
    if (warp() == 0) {
      int block = 0;
      double before = 0.0;
      if (lane() == 0) {
        const int num_groups = (num_blocks_ + kGroup - 1) / kGroup;
        const int group =
            walk_to(target, 0, num_groups, before, [&](int g) { return s_.groups[g]; });
        block = walk_to(target, group * kGroup, min(num_blocks_, (group + 1) * kGroup), before,
                        [&](int b) { return s_.sums[turn_][b]; });
      }
      block = __shfl_sync(~0u, block, 0);
      float values[kPerLane];
      load(block, values);
      for (int j = 0; j < kPerLane; ++j) {
        const float x = scaled(values[j]);
        s_.weights[32 * j + lane()] = x >= bound_ ? draw_weight(x) : 0.0f;
      }
      __syncwarp();
      if (lane() == 0) {
        s_.chosen = block * kBlock + walk_to(target, 0, min(kBlock, size_ - block * kBlock), before,
                                             [&](int i) { return s_.weights[i]; });
      }
    }
    __syncthreads();
    return s_.chosen;
  }

  // Makes `keys` those with a scaled value in [least, below), in order. Whether they fit.
  __device__ bool collect(float least, float below) {
    if (threadIdx.x == 0) s_.count = 0;
    __syncthreads();
    for (int b = warp(); b < num_blocks_; b += kWarps) {
      if (scaled(s_.maxima[b]) < least) continue;
      float values[kPerLane];
      load(b, values);
      for (int j = 0; j < kPerLane; ++j) {
        const int i = b * kBlock + 32 * j + lane();
        const float x = scaled(values[j]);
        if (i >= size_ || !(x >= least && x < below)) continue;
        const int place = atomicAdd(&s_.count, 1);
        if (place < kMaxCandidates) s_.keys[place] = key_of(values[j], i);
      }
    }
    __syncthreads();
    if (s_.count > kMaxCandidates) return false;
    sort(s_.count);
    return true;
  }

  // Bitonic; what lies beyond `count` is filled up.
  __device__ void sort(int count) {
    int size = 2;
    while (size < count) size *= 2;
    for (int i = count + static_cast<int>(threadIdx.x); i < size; i += kThreads) {
      s_.keys[i] = UINT64_MAX;
    }
    for (int run = 2; run <= size; run *= 2) {
      for (int apart = run / 2; apart > 0; apart /= 2) {
        __syncthreads();
        for (int pair = static_cast<int>(threadIdx.x); pair < size / 2; pair += kThreads) {
          const int i = 2 * pair - pair % apart;
          const uint64_t a = s_.keys[i];
          const uint64_t b = s_.keys[i + apart];
          if ((a > b) != ((i & run) == 0)) continue;
          s_.keys[i] = b;
          s_.keys[i + apart] = a;
        }
      }
    }
    __syncthreads();
  }

  __device__ int draw_from_top_k() {
    float least = -INFINITY;
    // So many blocks have a logit of at least this: there are no fewer such logits.
    if (draw_.top_k <= num_blocks_) {
      for (int b = static_cast<int>(threadIdx.x); b < num_blocks_; b += kThreads) {
        s_.keys[b] = key_of(s_.maxima[b], b);
      }
      sort(num_blocks_);
      least = scaled(logit_of(s_.keys[draw_.top_k - 1]));
      __syncthreads();
    }
    if (!collect(least, INFINITY)) return -1;
    int count = draw_.top_k;
    while (scaled(logit_of(s_.keys[count - 1])) < draw_.least) --count;
    weigh(count);
    double reach = INFINITY;
    if (draw_.top_p < 1.0f) {
      double sum = 0.0;
      for (int i = 0; i < count; ++i) sum = __dadd_rn(sum, s_.weights[i]);
      reach = __dmul_rn(sum, draw_.top_p);
    }
    return draw_from_candidates(0.0, count, reach);
  }

  __device__ int draw_from_top_p(double reach) {
    float below = 0.5f;
    float from = -1.0f;
    while (from > draw_.least && sum_from(from) < reach) {
      below = from;
      from *= 2.0f;
    }
    from = fmaxf(from, draw_.least);
    for (int i = 0; i < 8; ++i) {
      const float middle = (from + fminf(below, 0.0f)) / 2.0f;
      (sum_from(middle) < reach ? below : from) = middle;
    }
    const double above = sum_from(below);
    if (!collect(from, below)) return -1;
    weigh(s_.count);
    return draw_from_candidates(above, s_.count, reach);
  }

  __device__ void weigh(int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      s_.weights[i] = weight(logit_of(s_.keys[i]));
    }
    __syncthreads();
  }

  // From all above the bound, which add up to `above`, and as few of the `count` candidates as
  // reach `reach` with them.
  __device__ int draw_from_candidates(double above, int count, double reach) {
    if (threadIdx.x == 0) {
      double sum = above;
      int kept = 0;
      for (; kept < count && sum < reach; ++kept) sum = __dadd_rn(sum, s_.weights[kept]);
      const double target = __dmul_rn(draw_.share, sum);
      sum = above;
      int chosen = 0;
      for (; chosen < kept; ++chosen) {
        sum = __dadd_rn(sum, s_.weights[chosen]);
        if (target < sum) break;
      }
      s_.total = target;
      // Where the target lies above the bound there is no candidate to it.
      s_.chosen = target < above || kept == 0 ? -1 : id_of(s_.keys[min(chosen, kept - 1)]);
    }
    __syncthreads();
    const int chosen = s_.chosen;
    const double target = s_.total;
    __syncthreads();
    return chosen >= 0 ? chosen : find(target);
  }

  Shared& s_;
  int rank_, cluster_;
  int turn_ = 0;
  const float* logits_;
  int size_, num_blocks_;
  RowDraw draw_;
  float max_ = 0.0f;
  float bound_ = 0.0f;  // of the last sum
};

__global__ void __launch_bounds__(kThreads)
    draw_tokens_kernel(int32_t* token_ids, Rows<const float> logits, const RowDraw* draws, int size,
                       int cluster) {
  __shared__ Shared shared;
  const int64_t row = blockIdx.x / static_cast<unsigned>(cluster);
  const int rank = static_cast<int>(blockIdx.x) % cluster;
  const int token = RowDrawer(shared, rank, cluster, logits.at(row, 0), size, draws[row]).token();
  if (rank == 0 && threadIdx.x == 0) token_ids[row] = token;
}

LaunchShape launch_shape(int64_t rows, unsigned cluster) {
  return {.grid = dim3(static_cast<unsigned>(rows) * cluster),
          .block = dim3(kThreads),
          .cluster = cluster};
}

// Whether the kernel that runs was compiled for clusters: a build, too, may have only the code of
// GPUs before sm_90.
bool knows_clusters() {
  static const bool knows = [] {
    cudaFuncAttributes attributes;
    check_cuda(cudaFuncGetAttributes(&attributes, draw_tokens_kernel), "cudaFuncGetAttributes");
    return attributes.ptxVersion >= 90;
  }();
  return knows;
}

// The largest cluster of which the GPU holds one for each row. Later GPUs run the code of those
// before sm_90.
unsigned cluster_size(const DeviceProperties& gpu, int64_t rows) {
  if (gpu.compute_capability != 90 || !knows_clusters()) return 1;
  static const std::array<int, 3> most = {
      most_active_clusters(draw_tokens_kernel, launch_shape(1, 2)),
      most_active_clusters(draw_tokens_kernel, launch_shape(1, 4)),
      most_active_clusters(draw_tokens_kernel, launch_shape(1, kMaxCluster))};
  unsigned size = kMaxCluster;
  for (auto clusters = most.rbegin(); clusters != most.rend() && *clusters < rows; ++clusters) {
    size /= 2;
  }
  return size;
}

}  // namespace

void draw_tokens(ops::ExecContext& ctx, const ops::DrawTokensArgs& a) {
  if (a.logits.rows == 0) return;
  OCTAVO_CHECK(a.logits.dtype == DType::kF32 && a.logits.cols <= INT32_MAX - kBlock);
  const auto& device = static_cast<const CudaDevice&>(*ctx.device);
  const unsigned cluster = cluster_size(device.properties(), a.logits.rows);
  launch("draw_tokens", draw_tokens_kernel, launch_shape(a.logits.rows, cluster), stream_of(ctx),
         a.token_ids, Rows<const float>(a.logits), a.draws, static_cast<int>(a.logits.cols),
         static_cast<int>(cluster));
}

}  // namespace octavo::backends::cuda
