#include "backends/cuda/attention_work.h"

#include <climits>

#include "backends/cuda/launch.h"
#include "backends/cuda/ptx/pdl.cuh"

namespace octavo::backends::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBuckets = kThreads;  // items of about the same length, in no order

__device__ int count_keys(const WorkListArgs& args, int seq) {
  if (args.cu_seqlens_k == nullptr) return args.seq_lens[seq];
  return args.cu_seqlens_k[seq + 1] - args.cu_seqlens_k[seq];
}

__device__ WorkItem make_item(const WorkListArgs& args, int seq, int tile) {
  const int q_begin = args.cu_seqlens_q[seq];
  const int q_len = args.cu_seqlens_q[seq + 1] - q_begin;
  const int num_keys = count_keys(args, seq);
  const int first = tile * args.tile_tokens;
  WorkItem item;
  item.q_row = q_begin + first;
  item.num_tokens = min(args.tile_tokens, q_len - first);
  item.position = num_keys - q_len + first;
  item.num_keys = num_keys;
  item.kv_row = args.cu_seqlens_k != nullptr ? args.cu_seqlens_k[seq] : seq;
  const BlockRange range = block_range(
      args.mask, item.position, item.position + item.num_tokens - 1, num_keys, args.block_keys);
  item.begin = range.begin;
  item.end = range.end;
  item.masked = range.left | range.right << 16;
  return item;
}

// Calls visit(seq, tile, i) for every item, the thread's i-th. All threads of the block share the
// sequences, several threads to one where sequences are few.
template <typename Visit>
__device__ __forceinline__ void for_each_tile(const WorkListArgs& args, const Visit& visit) {
  const int threads_per_seq = args.num_seqs < kThreads ? kThreads / args.num_seqs : 1;
  const int thread = static_cast<int>(threadIdx.x);
  const int seqs_at_once = kThreads / threads_per_seq;
  if (thread >= seqs_at_once * threads_per_seq) return;
  int i = 0;
  for (int seq = thread / threads_per_seq; seq < args.num_seqs; seq += seqs_at_once) {
    const int q_len = args.cu_seqlens_q[seq + 1] - args.cu_seqlens_q[seq];
    const int tiles = (q_len + args.tile_tokens - 1) / args.tile_tokens;
    for (int tile = thread % threads_per_seq; tile < tiles; tile += threads_per_seq) {
      visit(seq, tile, i++);
    }
  }
}

// An inclusive sum over the block's threads; `warp_sums` is scratch.
__device__ int block_inclusive_sum(int value, int (&warp_sums)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFF, value, distance);
    if (lane >= distance) value += other;
  }
  if (lane == 31) warp_sums[warp] = value;
  __syncthreads();
  for (int i = 0; i < warp; ++i) value += warp_sums[i];
  return value;
}

// A counting sort by number of key blocks in two passes over the lengths; the items themselves are
// written once, to their places. A thread's first item, mostly its only one, stays in registers.
__global__ void __launch_bounds__(kThreads) work_list_kernel(WorkList* list, WorkListArgs args) {
  __shared__ int longest, shortest;
  __shared__ int buckets[kBuckets];  // counts, then the next free place; 0 is the longest
  __shared__ int warp_sums[32];
  __shared__ int num_keys;
  pdl_launch_next();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    longest = 0;
    shortest = INT_MAX;
    num_keys = 0;
  }
  buckets[thread] = 0;
  pdl_wait();
  __syncthreads();

  int keys = 0, most = 0, least = INT_MAX;
  for (int seq = thread; seq < args.num_seqs; seq += kThreads) keys += count_keys(args, seq);
  WorkItem first = {};
  for_each_tile(args, [&](int seq, int tile, int i) {
    const WorkItem item = make_item(args, seq, tile);
    if (i == 0) first = item;
    most = max(most, item.end - item.begin);
    least = min(least, item.end - item.begin);
  });
  keys = __reduce_add_sync(0xFFFFFFFF, keys);
  most = __reduce_max_sync(0xFFFFFFFF, most);
  least = __reduce_min_sync(0xFFFFFFFF, least);
  if (thread % 32 == 0) {
    atomicAdd(&num_keys, keys);
    atomicMax(&longest, most);
    atomicMin(&shortest, least);
  }
  __syncthreads();
  const int divisor = longest / kBuckets + 1;
  const auto for_each_item = [&](const auto& visit) {
    for_each_tile(args, [&](int seq, int tile, int i) {
      const WorkItem item = i == 0 ? first : make_item(args, seq, tile);
      visit(item, buckets + (longest - (item.end - item.begin)) / divisor);
    });
  };
  for_each_item([&](const WorkItem&, int* bucket) { atomicAdd(bucket, 1); });
  __syncthreads();
  const int count = buckets[thread];
  const int last = block_inclusive_sum(count, warp_sums);
  buckets[thread] = last - count;
  if (thread == kThreads - 1) {
    list->ticket = 0;
    list->num_items = min(last, args.max_items);
    list->section_kv_heads = section_kv_heads(args.num_kv_heads, args.units_per_kv_head, last,
                                              num_keys, args.kv_bytes, shortest > longest / 4 * 3);
  }
  __syncthreads();
  for_each_item([&](const WorkItem& item, int* bucket) {
    const int place = atomicAdd(bucket, 1);
    if (place < args.max_items) list->items()[place] = item;
  });
}

}  // namespace

cudaError_t launch_work_list(WorkList* list, const WorkListArgs& args, cudaStream_t stream) {
  const LaunchShape shape = {.grid = dim3(1), .block = dim3(kThreads), .overlap_previous = true};
  return try_launch(work_list_kernel, shape, stream, list, args);
}

}  // namespace octavo::backends::cuda
