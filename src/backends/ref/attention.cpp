#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/ref/ref.h"
#include "tensor/float16.h"

namespace octavo::backends::ref {
namespace {

double load(const void* cache, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF16:
      return fp16_to_float(static_cast<const uint16_t*>(cache)[index]);
    case DType::kBF16:
      return bf16_to_float(static_cast<const uint16_t*>(cache)[index]);
    default:
      return static_cast<const float*>(cache)[index];
  }
}

// Where position `position` of sequence `sequence` starts in the cache, for KV head `kv_head`.
int64_t cache_index(const ops::AttentionArgs& a, int64_t sequence, int64_t position,
                    int64_t kv_head) {
  const int64_t entry = sequence * a.batch.block_table_stride + position / a.kv.block_size;
  const int64_t block = a.batch.block_table[entry];
  const int64_t row =
      (block * a.kv.num_kv_heads + kv_head) * a.kv.block_size + position % a.kv.block_size;
  return row * a.kv.head_dim;
}

void attend(const ops::AttentionArgs& a, int64_t sequence, int64_t token, int64_t head) {
  const int64_t kv_head = head / (a.num_heads / a.kv.num_kv_heads);
  const int64_t end = a.batch.seq_lens[sequence] - (a.batch.cu_seqlens_q[sequence + 1] - token) + 1;
  const float* q = a.q.row<float>(token) + head * a.kv.head_dim;
  float* out = a.out.row<float>(token) + head * a.kv.head_dim;

  const int64_t first = a.first_visible(end - 1);
  std::vector<double> weights(end, -std::numeric_limits<double>::infinity());
  for (int64_t p = first; p < end; ++p) {
    const int64_t key = cache_index(a, sequence, p, kv_head);
    double dot = 0;
    for (int64_t d = 0; d < a.kv.head_dim; ++d) dot += q[d] * load(a.kv.k, a.kv.dtype, key + d);
    weights[p] = dot * a.scale;
    if (a.softcap > 0) weights[p] = a.softcap * std::tanh(weights[p] / a.softcap);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);

  std::vector<double> mixed(a.kv.head_dim, 0);
  for (int64_t p = first; p < end; ++p) {
    const int64_t value = cache_index(a, sequence, p, kv_head);
    for (int64_t d = 0; d < a.kv.head_dim; ++d) {
      mixed[d] += weights[p] * load(a.kv.v, a.kv.dtype, value + d);
    }
  }
  for (int64_t d = 0; d < a.kv.head_dim; ++d) out[d] = static_cast<float>(mixed[d] / sum);
}

}  // namespace

void attention(ops::ExecContext&, const ops::AttentionArgs& a) {
  for (int64_t s = 0; s < a.batch.num_seqs; ++s) {
    for (int64_t t = a.batch.cu_seqlens_q[s]; t < a.batch.cu_seqlens_q[s + 1]; ++t) {
      for (int64_t head = 0; head < a.num_heads; ++head) attend(a, s, t, head);
    }
  }
}

}  // namespace octavo::backends::ref
