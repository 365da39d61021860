// Lists the decode work of a batch: one block, a warp a sequence. Larger splits come first, so that
// the blocks of the attention kernel, which take work as it comes, finish together.
#include <cuda_runtime.h>

#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/decode_plan.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kClasses = 32;  // of split sizes, by powers of two

struct Entry {
  DecodeCut cut;
  int q_row, q_len, num_keys;
  int size_class;  // 0: the largest splits
};

// False where the sequence is not for decode.
__device__ bool read_entry(const DecodeArgs& args, int seq, Entry& entry) {
  entry.q_row = args.cu_seqlens_q[seq];
  entry.q_len = args.cu_seqlens_q[seq + 1] - entry.q_row;
  if (entry.q_len < 1 || entry.q_len > args.max_q_len) return false;
  entry.num_keys = args.seq_lens[seq];
  entry.cut = decode_cut(args, entry.num_keys, entry.q_len);
  const int count = entry.cut.end - entry.cut.begin;
  entry.size_class = __clz(max(1, min(count, entry.cut.split_tokens)));
  return true;
}

__global__ void __launch_bounds__(kThreads)
    plan_decode_kernel(const DecodeArgs args, const DecodeWorkspace workspace, int row_tiles) {
  pdl_launch_next();
  __shared__ int next[kClasses];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  if (thread < kClasses) next[thread] = 0;
  pdl_wait();
  const int num_arrivals = args.num_seqs * args.num_kv_heads * row_tiles;
  for (int i = thread; i < num_arrivals; i += kThreads) workspace.arrivals[i] = 0;
  __syncthreads();

  Entry entry;
  for (int seq = thread; seq < args.num_seqs; seq += kThreads) {
    if (read_entry(args, seq, entry)) atomicAdd(&next[entry.size_class], entry.cut.num_splits);
  }
  __syncthreads();
  if (thread < kClasses) {  // running sums: where each class begins
    const int count = next[lane];
    int end = count;
    for (int step = 1; step < kClasses; step *= 2) {
      const int before = __shfl_up_sync(~0u, end, step);
      if (lane >= step) end += before;
    }
    next[lane] = end - count;
    if (lane == kClasses - 1) {
      *workspace.header = {0, end, end * args.num_kv_heads * row_tiles, {}};
    }
  }
  __syncthreads();

  for (int seq = thread / 32; seq < args.num_seqs; seq += kThreads / 32) {
    if (!read_entry(args, seq, entry)) continue;
    int first = 0;
    if (lane == 0) first = atomicAdd(&next[entry.size_class], entry.cut.num_splits);
    first = __shfl_sync(~0u, first, 0);
    for (int split = lane; split < entry.cut.num_splits; split += 32) {
      const int begin = entry.cut.begin + split * entry.cut.split_tokens;
      const int end = min(begin + entry.cut.split_tokens, entry.cut.end);
      workspace.work[first + split] = {
          seq, begin, end, split, entry.cut.num_splits, entry.q_row, entry.q_len, entry.num_keys};
    }
  }
}

}  // namespace

void launch_plan_decode(const DecodeArgs& args, void* memory, cudaStream_t stream) {
  const LaunchShape shape = {.grid = dim3(1), .block = dim3(kThreads), .overlap_previous = true};
  launch("plan_decode", plan_decode_kernel, shape, stream, args, decode_workspace(args, memory),
         decode_row_tiles(args));
}

}  // namespace octavo::backends::cuda
