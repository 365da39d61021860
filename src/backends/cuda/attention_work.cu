#include "backends/cuda/attention_work.h"

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

// Calls visit(item) for every item, each by one thread. All threads of the block share the
// sequences, several threads to one where sequences are few.
template <typename Visit>
__device__ void for_each_item(const WorkListArgs& args, const Visit& visit) {
  const int threads_per_seq = args.num_seqs < kThreads ? kThreads / args.num_seqs : 1;
  const int thread = static_cast<int>(threadIdx.x);
  const int seqs_at_once = kThreads / threads_per_seq;
  if (thread >= seqs_at_once * threads_per_seq) return;
  for (int seq = thread / threads_per_seq; seq < args.num_seqs; seq += seqs_at_once) {
    const int q_len = args.cu_seqlens_q[seq + 1] - args.cu_seqlens_q[seq];
    const int tiles = (q_len + args.tile_tokens - 1) / args.tile_tokens;
    for (int tile = thread % threads_per_seq; tile < tiles; tile += threads_per_seq) {
      visit(make_item(args, seq, tile));
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
// written once, to their places.
__global__ void __launch_bounds__(kThreads) work_list_kernel(WorkList* list, WorkListArgs args) {
  __shared__ int longest;
  __shared__ int buckets[kBuckets];  // counts, then the next free place; 0 is the longest
  __shared__ int warp_sums[32];
  __shared__ int num_keys;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    longest = 0;
    num_keys = 0;
  }
  buckets[thread] = 0;
  __syncthreads();

  for (int seq = thread; seq < args.num_seqs; seq += kThreads) {
    atomicAdd(&num_keys, count_keys(args, seq));
  }
  for_each_item(args, [&](const WorkItem& item) { atomicMax(&longest, item.end - item.begin); });
  __syncthreads();
  const int divisor = longest / kBuckets + 1;
  const auto bucket_of = [&](const WorkItem& item) {
    return (longest - (item.end - item.begin)) / divisor;
  };
  for_each_item(args, [&](const WorkItem& item) { atomicAdd(&buckets[bucket_of(item)], 1); });
  __syncthreads();
  const int count = buckets[thread];
  const int last = block_inclusive_sum(count, warp_sums);
  buckets[thread] = last - count;
  if (thread == kThreads - 1) {
    list->ticket = 0;
    list->num_items = min(last, args.max_items);
    list->section_kv_heads =
        section_kv_heads(args.num_kv_heads, args.units_per_kv_head, last, num_keys, args.kv_bytes);
  }
  __syncthreads();
  for_each_item(args, [&](const WorkItem& item) {
    const int place = atomicAdd(&buckets[bucket_of(item)], 1);
    if (place < args.max_items) list->items()[place] = item;
  });
}

}  // namespace

cudaError_t launch_work_list(WorkList* list, const WorkListArgs& args, cudaStream_t stream) {
  work_list_kernel<<<1, kThreads, 0, stream>>>(list, args);
  return cudaGetLastError();
}

}  // namespace octavo::backends::cuda
