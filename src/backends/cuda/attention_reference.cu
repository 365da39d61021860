#include "backends/cuda/attention_reference.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "backends/cuda/device_error.h"

namespace octavo::backends::cuda {
namespace {

using Args = ReferenceAttentionArgs;

constexpr int kThreads = 256;  // one a value of the head, at most
constexpr int kWarps = kThreads / 32;
constexpr int kKeys = 256;  // scored at a time

__device__ float e4m3_to_float(uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return NAN;
  const float magnitude = exponent == 0 ? ldexpf(static_cast<float>(mantissa), -9)
                                        : ldexpf(static_cast<float>(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

__device__ float load_value(const void* values, DType dtype, int64_t index) {
  if (dtype == DType::kF8E4M3) return e4m3_to_float(static_cast<const uint8_t*>(values)[index]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(values)[index]);
}

struct Sequence {
  int index;
  int num_keys;
  int position;  // of the query row
};

__device__ Sequence find_sequence(const Args& args, int token) {
  int s = 0;
  while (args.cu_seqlens_q[s + 1] <= token) ++s;
  const int num_keys = args.block_table != nullptr
                           ? args.seq_lens[s]
                           : args.cu_seqlens_k[s + 1] - args.cu_seqlens_k[s];
  return {s, num_keys, num_keys - (args.cu_seqlens_q[s + 1] - token)};
}

// Where the values of one key's head begin, in values.
__device__ int64_t key_offset(const Args& args, int seq, int key, int kv_head) {
  if (args.block_table == nullptr) {
    return (static_cast<int64_t>(args.cu_seqlens_k[seq] + key) * args.num_kv_heads + kv_head) *
           args.head_dim;
  }
  const int64_t block = args.block_table[seq * args.block_table_stride + key / args.block_size];
  return ((block * args.num_kv_heads + kv_head) * args.block_size + key % args.block_size) *
         args.head_dim;
}

// Of a key whose head begins at `offset`.
__device__ float scale_of(const Args& args, const float* scales, int kv_head, int64_t offset) {
  if (scales == nullptr) return 1.0f;
  return scales[args.token_scales ? offset / args.head_dim : kv_head];
}

__device__ float score_key(const Args& args, const float* q, int64_t offset, float k_scale) {
  float sum = 0.0f;
  for (int d = static_cast<int>(threadIdx.x) % 32; d < args.head_dim; d += 32) {
    sum += q[d] * load_value(args.k, args.kv_dtype, offset + d);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  const float score = sum * k_scale * args.scale;
  return args.softcap > 0.0f ? args.softcap * tanhf(score / args.softcap) : score;
}

__device__ float round_probability(const Args& args, float p) {
  if (!args.working_precision) return p;
  return args.kv_dtype == DType::kBF16 ? __bfloat162float(__float2bfloat16(p))
                                       : __half2float(__float2half(p));
}

// One block a row and head. Keys are taken kKeys at a time: warps score them, then each thread adds
// up one value of the output.
__global__ void attention_reference_kernel(const Args args) {
  __shared__ float q[256];
  __shared__ float scores[kKeys];
  __shared__ int64_t offsets[kKeys];
  const int thread = static_cast<int>(threadIdx.x);
  const int token = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / (args.num_heads / args.num_kv_heads);
  const Sequence seq = find_sequence(args, token);
  const int64_t row = (static_cast<int64_t>(token) * args.num_heads + head) * args.head_dim;
  if (thread < args.head_dim) q[thread] = load_value(args.q, DType::kBF16, row + thread);

  int first = 0;
  if (args.window_left >= 0) first = max(first, seq.position - args.window_left);
  if (args.chunk > 0 && seq.position > 0)
    first = max(first, seq.position / args.chunk * args.chunk);
  int last = seq.num_keys - 1;
  if (args.window_right >= 0 && args.tree_mask == nullptr) {
    last = min(last, seq.position + args.window_right);
  }
  const uint64_t tree = args.tree_mask != nullptr ? args.tree_mask[token] : 0;
  const int first_query =
      seq.num_keys - (args.cu_seqlens_q[seq.index + 1] - args.cu_seqlens_q[seq.index]);

  float highest = -INFINITY, sum = 0.0f, out = 0.0f;
  for (int begin = first; begin <= last; begin += kKeys) {
    const int count = min(kKeys, last + 1 - begin);
    __syncthreads();
    for (int i = thread / 32; i < count; i += kWarps) {
      offsets[i] = key_offset(args, seq.index, begin + i, kv_head);
      const int query = begin + i - first_query;
      const bool seen = args.tree_mask == nullptr || query < 0 || (tree >> query & 1) != 0;
      const float scale = scale_of(args, args.k_scale, kv_head, offsets[i]);
      const float score = score_key(args, q, offsets[i], scale);
      scores[i] = seen ? score : -INFINITY;
    }
    __syncthreads();
    float new_highest = highest;
    for (int i = 0; i < count; ++i) new_highest = fmaxf(new_highest, scores[i]);
    if (new_highest == -INFINITY) continue;
    const float rescale = highest == -INFINITY ? 0.0f : expf(highest - new_highest);
    highest = new_highest;
    sum *= rescale;
    out *= rescale;
    for (int i = 0; i < count; ++i) {
      const float p = expf(scores[i] - highest);
      sum += p;
      if (thread >= args.head_dim) continue;
      out += round_probability(args, p) * scale_of(args, args.v_scale, kv_head, offsets[i]) *
             load_value(args.v, args.kv_dtype, offsets[i] + thread);
    }
  }

  float total = sum;
  if (args.sinks != nullptr && sum > 0.0f) total += expf(args.sinks[head] - highest);
  if (thread < args.head_dim) args.out[row + thread] = sum > 0.0f ? out / total : 0.0f;
  if (thread == 0 && args.lse != nullptr) {
    args.lse[static_cast<int64_t>(head) * args.num_tokens + token] =
        sum > 0.0f ? highest + logf(sum) : -INFINITY;
  }
}

}  // namespace

void attention_reference(const ReferenceAttentionArgs& args, cudaStream_t stream) {
  if (args.num_tokens == 0) return;
  const dim3 grid(static_cast<unsigned>(args.num_tokens), static_cast<unsigned>(args.num_heads));
  attention_reference_kernel<<<grid, kThreads, 0, stream>>>(args);
  check_cuda(cudaGetLastError(), "attention_reference");
}

}  // namespace octavo::backends::cuda
