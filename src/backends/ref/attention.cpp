#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/ref/ref.h"
#include "tensor/float16.h"

namespace octavo::backends::ref {
namespace {

double load(const std::byte* row, DType dtype, int64_t head_dim, int64_t d) {
  switch (dtype) {
    case DType::kI8: {
      float scale;
      std::memcpy(&scale, row + head_dim, sizeof(scale));
      return static_cast<double>(reinterpret_cast<const int8_t*>(row)[d]) * scale;
    }
    case DType::kF16:
      return fp16_to_float(reinterpret_cast<const uint16_t*>(row)[d]);
    case DType::kBF16:
      return bf16_to_float(reinterpret_cast<const uint16_t*>(row)[d]);
    default:
      return reinterpret_cast<const float*>(row)[d];
  }
}

// The row of position `position` of sequence `sequence` in `part`, the keys or the values.
const std::byte* cache_row(const ops::AttentionArgs& a, void* part, int64_t sequence,
                           int64_t position, int64_t kv_head) {
  const int64_t entry = sequence * a.batch.block_table_stride + position / a.kv.block_size;
  return a.kv.row(part, a.batch.block_table[entry], kv_head, position % a.kv.block_size);
}

void attend(const ops::AttentionArgs& a, int64_t sequence, int64_t token, int64_t head) {
  const int64_t kv_head = head / (a.num_heads / a.kv.num_kv_heads);
  const int64_t end = a.batch.seq_lens[sequence] - (a.batch.cu_seqlens_q[sequence + 1] - token) + 1;
  const float* q = a.q.row<float>(token) + head * a.kv.head_dim;
  float* out = a.out.row<float>(token) + head * a.kv.head_dim;

  const int64_t first = a.first_visible(end - 1);
  std::vector<double> weights(end, -std::numeric_limits<double>::infinity());
  for (int64_t p = first; p < end; ++p) {
    const std::byte* key = cache_row(a, a.kv.k, sequence, p, kv_head);
    double dot = 0;
    for (int64_t d = 0; d < a.kv.head_dim; ++d) {
      dot += q[d] * load(key, a.kv.dtype, a.kv.head_dim, d);
    }
    weights[p] = dot * a.scale;
    if (a.softcap > 0) weights[p] = a.softcap * std::tanh(weights[p] / a.softcap);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);

  std::vector<double> mixed(a.kv.head_dim, 0);
  for (int64_t p = first; p < end; ++p) {
    const std::byte* value = cache_row(a, a.kv.v, sequence, p, kv_head);
    for (int64_t d = 0; d < a.kv.head_dim; ++d) {
      mixed[d] += weights[p] * load(value, a.kv.dtype, a.kv.head_dim, d);
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
