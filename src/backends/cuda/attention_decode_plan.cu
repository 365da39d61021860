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

struct Parts {
  int tokens, count;
  int size_class;  // 0: the largest

  __device__ Parts(const DecodeArgs& args, const DecodeCut& cut, int64_t max_tokens) {
    const int splits = decode_part_splits(args, cut, max_tokens);
    tokens = splits * cut.split_tokens;
    count = (cut.num_splits + splits - 1) / splits;
    size_class = __clz(max(1, min(cut.end - cut.begin, tokens)));
  }
};

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

  __device__ void write(const Parts& parts, DecodeWork* work) const {
    for (int part = 0; part < parts.count; ++part) {
      const int begin = cut.begin + part * parts.tokens;
      const int end = min(begin + parts.tokens, cut.end);
      const int numbers = part | parts.count << 8 | (parts.tokens == cut.split_tokens) << 16;
      auto* to = reinterpret_cast<int4*>(work + part);
      to[0] = {seq, begin, end, cut.split_tokens};
      to[1] = {q_row, q_len, num_keys, numbers};
    }
  }
};

// Running sums: where each class begins. Returns, to the last lane, their total.
__device__ int begin_classes(int* counts, int lane) {
  const int count = counts[lane];
  int end = count;
  for (int distance = 1; distance < kClasses; distance *= 2) {
    const int before = __shfl_up_sync(~0u, end, distance);
    if (lane >= distance) end += before;
  }
  counts[lane] = end - count;
  return end;
}

enum Pass { kSum, kCount, kWrite };

// A thread takes a sequence. `heads`: kv heads times row tiles. `blocks`: of the attention kernel
// that run at the same time.
__global__ void __launch_bounds__(kThreads)
    plan_decode_kernel(const DecodeArgs args, const DecodeWorkspace workspace, int heads,
                       int blocks) {
  pdl_launch_next();
  __shared__ int next[kClasses];
  __shared__ int slabs;  // 16 keys, of all sequences
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kClasses) next[thread] = 0;
  if (thread == 0) slabs = 0;
  __syncthreads();
  pdl_wait();
  for (int i = thread; i < args.num_seqs * heads; i += kThreads) workspace.arrivals[i] = 0;

  Entry entry;  // stays where there are no more sequences than threads
  int64_t share = 0;
#pragma unroll 1  // one copy of the code: it runs once, and comes from memory
  for (int pass = kSum; pass <= kWrite; ++pass) {
    int count = 0;
#pragma unroll 1
    for (int seq = thread; seq < args.num_seqs; seq += kThreads) {
      entry.read(args, seq);
      if (!entry.valid) continue;
      const Parts parts(args, entry.cut, decode_max_part_tokens(share, seq, args.num_seqs));
      if (pass == kSum) count += max(0, entry.cut.end - entry.cut.begin) / 16;
      if (pass == kCount) atomicAdd(&next[parts.size_class], parts.count);
      if (pass == kWrite) {
        entry.write(parts, workspace.work + atomicAdd(&next[parts.size_class], parts.count));
      }
    }
    if (pass == kSum) {
      count = __reduce_add_sync(~0u, count);
      if (thread % 32 == 0 && count > 0) atomicAdd(&slabs, count);
    }
    __syncthreads();
    if (pass == kSum) share = 16 * int64_t{slabs} * heads / blocks;
    if (pass == kCount) {
      if (thread < kClasses) {
        const int num_work = begin_classes(next, thread);
        if (thread == kClasses - 1) *workspace.header = {0, num_work, num_work * heads, {}};
      }
      __syncthreads();
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
