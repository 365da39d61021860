// The reference itself, against loops in double precision on the host.
#include "backends/cuda/attention_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/float16.h"
#include "tests/gpu/attention_harness.h"
#include "tests/gpu/e4m3.h"

namespace octavo::backends::cuda {
namespace {

std::vector<double> download_values(const void* device, DType dtype, int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(dtype_bytes(dtype, count)));
  check_cuda(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDefault), "cudaMemcpy");
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kBF16) {
      uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      values[i] = bf16_to_float(bits);
    } else {
      values[i] = e4m3_to_double(bytes[i]);
    }
  }
  return values;
}

template <typename T>
std::vector<T> download(const T* device, size_t count) {
  std::vector<T> values(count);
  if (device == nullptr) return {};
  check_cuda(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
  return values;
}

struct Oracle {
  const AttentionInputs& inputs;
  const AttentionCase& c = inputs.shape();
  ReferenceAttentionArgs args = inputs.args();
  int64_t slots = c.block_size > 0 ? inputs.num_blocks() * c.block_size : inputs.num_kv_tokens();
  std::vector<double> q = download_values(args.q, DType::kBF16,
                                          int64_t{inputs.num_tokens()} * c.num_heads * c.head_dim);
  std::vector<double> k = download_values(args.k, c.kv_dtype, slots* c.num_kv_heads* c.head_dim);
  std::vector<double> v = download_values(args.v, c.kv_dtype, slots* c.num_kv_heads* c.head_dim);
  std::vector<int32_t> table =
      download(args.block_table, c.kv_lens.size() * static_cast<size_t>(args.block_table_stride));
  std::vector<float> sinks = download(args.sinks, static_cast<size_t>(c.num_heads));
  size_t num_scales = static_cast<size_t>(c.token_scales ? slots * c.num_kv_heads : c.num_kv_heads);
  std::vector<float> k_scale = download(args.k_scale, num_scales);
  std::vector<float> v_scale = download(args.v_scale, num_scales);
  std::vector<uint64_t> tree = download(args.tree_mask, static_cast<size_t>(inputs.num_tokens()));

  size_t offset(size_t seq, int first_key, int key, int kv_head) const {
    int64_t row = int64_t{first_key + key} * c.num_kv_heads + kv_head;
    if (c.block_size > 0) {
      const int64_t block = table[seq * static_cast<size_t>(args.block_table_stride) +
                                  static_cast<size_t>(key / c.block_size)];
      row = (block * c.num_kv_heads + kv_head) * c.block_size + key % c.block_size;
    }
    return static_cast<size_t>(row * c.head_dim);
  }

  // `query`: which of its sequence's query tokens the key is; negative: none.
  bool sees(int position, int token, int key, int query) const {
    if (c.window_left >= 0 && key < position - c.window_left) return false;
    if (c.tree) {
      if (query >= 0 && (tree[static_cast<size_t>(token)] >> query & 1) == 0) return false;
    } else if (c.window_right >= 0 && key > position + c.window_right) {
      return false;
    }
    return c.chunk == 0 || position < 0 || key >= position - position % c.chunk;
  }

  // out: head_dim values; returns the lse.
  double row(size_t seq, int first_key, int position, int token, int head, double* out) const {
    const int kv_head = head / (c.num_heads / c.num_kv_heads);
    const auto h = static_cast<size_t>(kv_head);
    const size_t q_row = (static_cast<size_t>(token) * static_cast<size_t>(c.num_heads) +
                          static_cast<size_t>(head)) *
                         static_cast<size_t>(c.head_dim);
    double sum = 0.0;
    for (int key = 0; key < c.kv_lens[seq]; ++key) {
      if (!sees(position, token, key, key - (c.kv_lens[seq] - c.q_lens[seq]))) continue;
      const size_t at = offset(seq, first_key, key, kv_head);
      const size_t scale_at = c.token_scales ? at / static_cast<size_t>(c.head_dim) : h;
      const bool scaled = c.scales || c.token_scales;
      double score = 0.0;
      for (size_t d = 0; d < static_cast<size_t>(c.head_dim); ++d)
        score += q[q_row + d] * k[at + d];
      score *= static_cast<double>(args.scale) * (scaled ? k_scale[scale_at] : 1.0f);
      if (c.softcap > 0.0f) score = c.softcap * std::tanh(score / c.softcap);
      sum += std::exp(score);
      for (size_t d = 0; d < static_cast<size_t>(c.head_dim); ++d) {
        out[d] += std::exp(score) * v[at + d] * (scaled ? v_scale[scale_at] : 1.0f);
      }
    }
    if (sum == 0.0) return -std::numeric_limits<double>::infinity();
    const double total =
        sum + (c.sinks ? std::exp(static_cast<double>(sinks[static_cast<size_t>(head)])) : 0.0);
    for (int d = 0; d < c.head_dim; ++d) out[d] /= total;
    return std::log(sum);
  }
};

void expect_reference_is_right(const AttentionCase& shape) {
  SCOPED_TRACE(shape.describe());
  const AttentionInputs inputs(shape);
  const Oracle oracle{inputs};
  const auto rows = static_cast<size_t>(inputs.num_tokens() * shape.num_heads);
  const auto dims = static_cast<size_t>(shape.head_dim);
  DeviceArray<float> out(rows * dims), lse(rows);
  ReferenceAttentionArgs args = inputs.args();
  args.out = out.data();
  args.lse = lse.data();
  attention_reference(args, nullptr);
  const std::vector<float> got = out.download();
  const std::vector<float> got_lse = lse.download();

  int token = 0, first_key = 0;
  for (size_t s = 0; s < shape.q_lens.size(); first_key += shape.kv_lens[s], ++s) {
    for (int i = 0; i < shape.q_lens[s]; ++i, ++token) {
      for (int head = 0; head < shape.num_heads; ++head) {
        std::vector<double> want(dims, 0.0);
        const int position = shape.kv_lens[s] - shape.q_lens[s] + i;
        const double want_lse = oracle.row(s, first_key, position, token, head, want.data());
        const float lse_here = got_lse[static_cast<size_t>(head * inputs.num_tokens() + token)];
        if (std::isinf(want_lse)) {
          ASSERT_EQ(lse_here, -std::numeric_limits<float>::infinity());
        } else {
          ASSERT_NEAR(lse_here, want_lse, 2e-5);
        }
        for (size_t d = 0; d < dims; ++d) {
          ASSERT_NEAR(got[static_cast<size_t>(token * shape.num_heads + head) * dims + d], want[d],
                      2e-5)
              << "token " << token << " head " << head << " value " << d;
        }
      }
    }
  }
}

class AttentionReference : public testing::Test {
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(AttentionReference, AgreesWithDoublePrecision) {
  const AttentionCase base = {.q_lens = {1, 5, 0, 3, 2},
                              .kv_lens = {300, 5, 7, 2, 0},
                              .num_heads = 6,
                              .num_kv_heads = 2,
                              .head_dim = 64};
  expect_reference_is_right(base);
  AttentionCase contiguous = base;
  contiguous.block_size = 0;
  contiguous.window_right = -1;
  expect_reference_is_right(contiguous);
  AttentionCase masked = base;
  masked.window_left = 20;
  masked.softcap = 3.0f;
  masked.sinks = true;
  masked.head_dim = 128;
  expect_reference_is_right(masked);
  AttentionCase chunked = base;
  chunked.chunk = 7;
  chunked.block_size = 32;
  chunked.kv_dtype = DType::kF8E4M3;
  chunked.scales = true;
  expect_reference_is_right(chunked);
  AttentionCase tree = base;
  tree.tree = true;
  tree.q_lens = {1, 5, 0, 3, 12};
  tree.kv_lens = {300, 5, 7, 2, 40};
  expect_reference_is_right(tree);
  AttentionCase token_scales = base;
  token_scales.kv_dtype = DType::kF8E4M3;
  token_scales.token_scales = true;
  expect_reference_is_right(token_scales);
}

}  // namespace
}  // namespace octavo::backends::cuda
