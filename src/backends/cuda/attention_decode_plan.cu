// Lists the decode work of a batch in one block. Larger items come first, so that the blocks of the
// attention kernel, which take work as it comes, finish together.
#include <cuda_runtime.h>

#include <algorithm>

#include "backends/cuda/device_error.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"
#include "backends/cuda/tile/decode_plan.h"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 256;
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

  __device__ void write(const DecodeParts& parts, DecodeWork* work) const {
    for (int part = 0; part < parts.count; ++part) {
      const int begin = cut.begin + part * parts.tokens;
      const int end = part + 1 < parts.count ? begin + parts.tokens : cut.end;
      const int numbers = part | parts.count << 8 | parts.splits << 16;
      auto* to = reinterpret_cast<int4*>(work + part);
      to[0] = {seq, begin, end, cut.split_tokens};
      to[1] = {q_row, q_len, num_keys, numbers};
    }
  }
};

// What the sequences of a thread, of a warp and of the batch add up to.
struct Sums {
  int slabs = 0;  // 16 keys
  int parts[kDecodePartChoices] = {};
  int longest[kDecodePartChoices] = {};

  __device__ void add(const DecodeCut& cut) {
    slabs += max(0, cut.end - cut.begin) / 16;
#pragma unroll
    for (int choice = 0; choice < kDecodePartChoices; ++choice) {
      const DecodeParts more(cut, choice);
      parts[choice] += more.count;
      longest[choice] = max(longest[choice], more.tokens);
    }
  }
  // By a whole warp.
  __device__ void add_to(Sums& total, int lane) const {
    const int all = __reduce_add_sync(~0u, slabs);
    if (lane == 0) atomicAdd(&total.slabs, all);
#pragma unroll
    for (int choice = 0; choice < kDecodePartChoices; ++choice) {
      const int count = __reduce_add_sync(~0u, parts[choice]);
      const int most = __reduce_max_sync(~0u, longest[choice]);
      if (lane == 0) atomicAdd(&total.parts[choice], count);
      if (lane == 0) atomicMax(&total.longest[choice], most);
    }
  }
  // By a whole warp.
  __device__ int best_choice(int heads, const DecodeBlocks& blocks, int lane) const {
    const int choice = lane % kDecodePartChoices;
    const auto factor = static_cast<float>(heads);
    const DecodeLoad load = {16.0f * factor * static_cast<float>(slabs),
                             factor * static_cast<float>(parts[choice]),
                             static_cast<float>(longest[choice])};
    // Times are positive: as integers they are in the same order.
    const int time = __float_as_int(decode_time(load, blocks));
    const int least = __reduce_min_sync(~0u, time);
    return __ffs(static_cast<int>(__ballot_sync(~0u, time == least))) - 1;
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

struct PlanShape {
  int heads;  // kv heads times row tiles
  DecodeBlocks blocks;
  int choice;  // less than 0: by the batch
};

enum Pass { kSum, kCount, kWrite };

// A thread takes a sequence.
__global__ void __launch_bounds__(kThreads)
    plan_decode_kernel(const DecodeArgs args, const DecodeWorkspace workspace,
                       const PlanShape shape) {
  pdl_launch_next();
  __shared__ int next[kClasses];
  __shared__ Sums total;
  __shared__ int chosen;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kClasses) next[thread] = 0;
  if (thread == 0) total = {};
  __syncthreads();
  pdl_wait();
  for (int i = thread; i < args.num_seqs * shape.heads; i += kThreads) workspace.arrivals[i] = 0;

  Entry entry;  // stays where there are no more sequences than threads
  int choice = shape.choice;
#pragma unroll 1  // one copy of the code: it runs once, and comes from memory
  for (int pass = choice < 0 ? kSum : kCount; pass <= kWrite; ++pass) {
    Sums sums;
#pragma unroll 1
    for (int seq = thread; seq < args.num_seqs; seq += kThreads) {
      entry.read(args, seq);
      if (!entry.valid) continue;
      if (pass == kSum) {
        sums.add(entry.cut);
        continue;
      }
      const DecodeParts parts(entry.cut, choice);
      int* begin = &next[__clz(max(1, parts.tokens))];  // the largest first
      const int first = atomicAdd(begin, parts.count);
      if (pass == kWrite) entry.write(parts, workspace.work + first);
    }
    if (pass == kSum && thread / 32 * 32 < args.num_seqs) sums.add_to(total, thread % 32);
    __syncthreads();
    if (pass == kSum) {
      if (thread < 32) {
        choice = total.best_choice(shape.heads, shape.blocks, thread);
        if (thread == 0) chosen = choice;
      }
      __syncthreads();
      choice = chosen;
    }
    if (pass == kCount) {
      if (thread < kClasses) {
        const int num_work = begin_classes(next, thread);
        if (thread == kClasses - 1) *workspace.header = {0, num_work, num_work * shape.heads, {}};
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

// What needs no look at the batch: a choice that is asked for, or where every split finds a
// multiprocessor for itself.
int known_choice(const DecodeArgs& args, int multiprocessors) {
  const int splits = args.splits.part_splits;
  if (splits <= 0) return decode_max_items(args) <= multiprocessors ? 0 : -1;
  int choice = 0;
  while (decode_part_splits(choice) < std::min(splits, kMaxDecodeSplits)) ++choice;
  return choice;
}

}  // namespace

void launch_plan_decode(const DecodeArgs& args, void* memory, cudaStream_t stream) {
  const int multiprocessors = num_multiprocessors();
  const PlanShape plan = {args.num_kv_heads * decode_row_tiles(args),
                          decode_blocks(args, multiprocessors),
                          known_choice(args, multiprocessors)};
  const LaunchShape shape = {.grid = dim3(1), .block = dim3(kThreads), .overlap_previous = true};
  launch("plan_decode", plan_decode_kernel, shape, stream, args, decode_workspace(args, memory),
         plan);
}

}  // namespace octavo::backends::cuda
