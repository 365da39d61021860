#include "backends/cuda/attention_work.h"

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
  const auto range_of = [&](int block_keys) {
    const int last = item.position + item.num_tokens - 1;
    return block_range(args.mask, item.position, last, num_keys, block_keys);
  };
  // A division by a number that is known takes a tenth of the time.
  const BlockRange range = args.block_keys == 128  ? range_of(128)
                           : args.block_keys == 80 ? range_of(80)
                                                   : range_of(args.block_keys);
  item.begin = range.begin;
  item.end = range.end;
  item.masked = range.left | range.right << 16;
  return item;
}

// A thread's share of the tiles. All threads of the block share the sequences, several threads to
// one where sequences are few.
struct Share {
  int first_seq, seq_step, first_tile, tile_step;

  __device__ explicit Share(int num_seqs) {
    const int thread = static_cast<int>(threadIdx.x);
    tile_step = num_seqs < kThreads ? kThreads / num_seqs : 1;
    seq_step = kThreads / tile_step;
    first_seq = thread / tile_step;
    first_tile = thread - first_seq * tile_step;
    if (first_seq >= seq_step) first_seq = num_seqs;  // nothing
  }

  // Calls visit(seq, tile, i) for every tile, the thread's i-th.
  template <typename Visit>
  __device__ __forceinline__ void for_each(const WorkListArgs& args, const Visit& visit) const {
    int i = 0;
    for (int seq = first_seq; seq < args.num_seqs; seq += seq_step) {
      const int q_len = args.cu_seqlens_q[seq + 1] - args.cu_seqlens_q[seq];
      const int tiles = (q_len + args.tile_tokens - 1) / args.tile_tokens;
      for (int tile = first_tile; tile < tiles; tile += tile_step) visit(seq, tile, i++);
    }
  }
};

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
  const int before = lane < warp ? warp_sums[lane] : 0;
  return value + __reduce_add_sync(0xFFFFFFFF, before);
}

// A counting sort by number of key blocks in two passes over the lengths; the items themselves are
// written once, to their places. A thread's first item, mostly its only one, stays in registers.
__global__ void __launch_bounds__(kThreads) work_list_kernel(WorkList* list, WorkListArgs args) {
  __shared__ int longest;
  __shared__ int buckets[kBuckets];  // counts, then the next free place; 0 is the longest
  __shared__ int warp_sums[32];
  __shared__ int num_keys;
  pdl_launch_next();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    longest = 0;
    num_keys = 0;
  }
  buckets[thread] = 0;
  pdl_wait();
  __syncthreads();

  int keys = 0, most = 0;
  for (int seq = thread; seq < args.num_seqs; seq += kThreads) keys += count_keys(args, seq);
  WorkItem first = {};
  const Share share(args.num_seqs);
  share.for_each(args, [&](int seq, int tile, int i) {
    const WorkItem item = make_item(args, seq, tile);
    if (i == 0) first = item;
    most = max(most, item.end - item.begin);
  });
  keys = __reduce_add_sync(0xFFFFFFFF, keys);
  most = __reduce_max_sync(0xFFFFFFFF, most);
  if (thread % 32 == 0) {
    atomicAdd(&num_keys, keys);
    atomicMax(&longest, most);
  }
  __syncthreads();
  const int divisor = longest / kBuckets + 1;
  const auto for_each_item = [&](const auto& visit) {
    share.for_each(args, [&](int seq, int tile, int i) {
      const WorkItem item = i == 0 ? first : make_item(args, seq, tile);
      const int shorter = longest - (item.end - item.begin);
      visit(item, buckets + (divisor == 1 ? shorter : shorter / divisor));
    });
  };
  for_each_item([&](const WorkItem&, int* bucket) { atomicAdd(bucket, 1); });
  __syncthreads();
  const int count = buckets[thread];
  const int last = block_inclusive_sum(count, warp_sums);
  buckets[thread] = last - count;
  __syncthreads();
  for_each_item([&](const WorkItem& item, int* bucket) {
    const int place = atomicAdd(bucket, 1);
    if (place < args.max_items) list->items()[place] = item;
  });
  if (thread == kThreads - 1) {
    list->ticket = 0;
    list->num_items = min(last, args.max_items);
    list->section_kv_heads =
        section_kv_heads(args.num_kv_heads, args.units_per_kv_head, last, num_keys, args.kv_bytes);
  }
}

}  // namespace

cudaError_t launch_work_list(WorkList* list, const WorkListArgs& args, cudaStream_t stream) {
  const LaunchShape shape = {.grid = dim3(1), .block = dim3(kThreads), .overlap_previous = true};
  return try_launch(work_list_kernel, shape, stream, list, args);
}

}  // namespace octavo::backends::cuda
