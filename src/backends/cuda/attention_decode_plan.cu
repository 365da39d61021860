// Lists the decode work of a batch in one block. Larger items come first, so that the blocks of the
// attention kernel, which take work as it comes, finish together.
#include <cuda_runtime.h>

#include "backends/cuda/device_error.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/decode_plan.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kClasses = 32;  // of items' sizes, by powers of two

struct Entry {
  int seq = -1;
  bool valid = false;  // the sequence is for decode
  int q_row, q_len, num_keys;
  DecodeCut cut;

  __device__ void read(const DecodeArgs& args, int of) {
    if (of == seq) return;
    seq = of;
    q_row = args.cu_seqlens_q[seq];
    q_len = args.cu_seqlens_q[seq + 1] - q_row;
    num_keys = args.seq_lens[seq];
    valid = q_len >= 1 && q_len <= args.max_q_len;
    if (valid) cut = decode_cut(args, num_keys, q_len);
  }
};

struct Parts {
  int tokens, count;
  int size_class;  // 0: the largest

  __device__ Parts(const DecodeArgs& args, const DecodeCut& cut, int64_t share) {
    const int splits = decode_part_splits(args, cut, share);
    tokens = splits * cut.split_tokens;
    count = (cut.num_splits + splits - 1) / splits;
    size_class = __clz(max(1, min(cut.end - cut.begin, tokens)));
  }
};

// `heads`: kv heads times row tiles. `blocks`: of the attention kernel that run at the same time.
__global__ void __launch_bounds__(kThreads)
    plan_decode_kernel(const DecodeArgs args, const DecodeWorkspace workspace, int heads,
                       int blocks) {
  pdl_launch_next();
  __shared__ int next[kClasses];
  __shared__ unsigned long long num_keys;  // of all sequences
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  if (thread < kClasses) next[thread] = 0;
  if (thread == 0) num_keys = 0;
  // As many lanes for a sequence as there are threads for, at most a warp.
  int lanes = 32;
  while (lanes > 1 && args.num_seqs * lanes > kThreads) lanes /= 2;
  const int first_seq = thread / lanes, lane_of_seq = thread % lanes;
  const int step = kThreads / lanes;
  const unsigned lanes_of_seq = ~0u >> (32 - lanes) << (lane - lane_of_seq);
  __syncthreads();
  pdl_wait();

  Entry entry;  // stays where there are no more sequences than threads
  for (int seq = first_seq; seq < args.num_seqs; seq += step) {
    entry.read(args, seq);
    if (entry.valid && lane_of_seq == 0) {
      atomicAdd(&num_keys,
                static_cast<unsigned long long>(max(0, entry.cut.end - entry.cut.begin)));
    }
  }
  for (int i = thread; i < args.num_seqs * heads; i += kThreads) workspace.arrivals[i] = 0;
  __syncthreads();
  const int64_t share = static_cast<int64_t>(num_keys) * heads / blocks;
  for (int seq = first_seq; seq < args.num_seqs; seq += step) {
    entry.read(args, seq);
    if (!entry.valid || lane_of_seq != 0) continue;
    const Parts parts(args, entry.cut, share);
    atomicAdd(&next[parts.size_class], parts.count);
  }
  __syncthreads();
  if (thread < kClasses) {  // running sums: where each class begins
    const int count = next[lane];
    int end = count;
    for (int distance = 1; distance < kClasses; distance *= 2) {
      const int before = __shfl_up_sync(~0u, end, distance);
      if (lane >= distance) end += before;
    }
    next[lane] = end - count;
    if (lane == kClasses - 1) *workspace.header = {0, end, end * heads, {}};
  }
  __syncthreads();

  for (int seq = first_seq; seq < args.num_seqs; seq += step) {
    entry.read(args, seq);
    if (!entry.valid) continue;
    const DecodeCut& cut = entry.cut;
    const Parts parts(args, cut, share);
    int first = 0;
    if (lane_of_seq == 0) first = atomicAdd(&next[parts.size_class], parts.count);
    first = __shfl_sync(lanes_of_seq, first, lane - lane_of_seq);
    for (int part = lane_of_seq; part < parts.count; part += lanes) {
      const int begin = cut.begin + part * parts.tokens;
      workspace.work[first + part] = {seq,
                                      begin,
                                      min(begin + parts.tokens, cut.end),
                                      cut.split_tokens,
                                      entry.q_row,
                                      entry.q_len,
                                      entry.num_keys,
                                      static_cast<uint8_t>(part),
                                      static_cast<uint8_t>(parts.count),
                                      parts.tokens == cut.split_tokens};
    }
  }
}

int num_multiprocessors() {
  static const int count = [] {
    int device = 0, found = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    check_cuda(cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device),
               "cudaDeviceGetAttribute");
    return found;
  }();
  return count;
}

}  // namespace

void launch_plan_decode(const DecodeArgs& args, void* memory, cudaStream_t stream) {
  const LaunchShape shape = {.grid = dim3(1), .block = dim3(kThreads), .overlap_previous = true};
  launch("plan_decode", plan_decode_kernel, shape, stream, args, decode_workspace(args, memory),
         args.num_kv_heads * decode_row_tiles(args), 2 * num_multiprocessors());
}

}  // namespace octavo::backends::cuda
