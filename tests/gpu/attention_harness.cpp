#include "tests/gpu/attention_harness.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/format.h"
#include "tensor/float16.h"
#include "tests/gpu/attention_values.h"

namespace octavo::backends::cuda {
namespace {

constexpr int32_t kFarOutside = 0x7FFFFFF0;
constexpr float kLseTolerance = 3e-4f;

std::vector<int32_t> running_sums(const std::vector<int>& lengths) {
  std::vector<int32_t> sums = {0};
  for (const int length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

std::vector<float> random_floats(int count, float low, float high, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(low + (high - low) * static_cast<float>(rng() >> 40) * 0x1.0p-24f);
  }
  return values;
}

int64_t blocks_of(int length, int block_size) {
  return (length + block_size - 1) / block_size;
}

// Distinct random blocks in random order; the pool's last is among them.
std::vector<int32_t> draw_blocks(int64_t count, int64_t num_blocks, uint64_t seed) {
  std::vector<int32_t> blocks(static_cast<size_t>(num_blocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::mt19937_64 rng(seed);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  std::iter_swap(blocks.begin(), std::find(blocks.begin(), blocks.end(), num_blocks - 1));
  blocks.resize(static_cast<size_t>(count));
  return blocks;
}

// Each query token of a sequence has an earlier one, or the sequence before, as its parent; bit j:
// token j is an ancestor, or the token itself.
std::vector<uint64_t> random_trees(const std::vector<int>& q_lens, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<uint64_t> seen;
  for (const int length : q_lens) {
    const size_t first = seen.size();
    for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
      const size_t parent = rng() % (i + 1);  // i: none
      seen.push_back((parent < i ? seen[first + parent] : 0) | uint64_t{1} << i);
    }
  }
  return seen;
}

std::string join(const std::vector<int>& values) {
  std::string text;
  for (size_t i = 0; i < values.size() && i < 8; ++i) {
    text += (i > 0 ? "," : "") + std::to_string(values[i]);
  }
  return values.size() > 8 ? text + format(",... ({})", values.size()) : text;
}

}  // namespace

std::string AttentionCase::describe() const {
  return format(
             "q {} kv {} heads {}/{} dim {} block {} {} sharpness {} softcap {} window {}:{} chunk "
             "{}{}{}",
             join(q_lens), join(kv_lens), num_heads, num_kv_heads, head_dim, block_size,
             dtype_traits(kv_dtype).name, sharpness, softcap, window_left, window_right, chunk,
             sinks ? " sinks" : "", scales ? " scales" : "") +
         (token_scales ? " token scales" : "") + (tree ? " tree" : "");
}

AttentionInputs::AttentionInputs(const AttentionCase& shape) : shape_(shape) {
  num_tokens_ = std::accumulate(shape.q_lens.begin(), shape.q_lens.end(), 0);
  num_kv_tokens_ = std::accumulate(shape.kv_lens.begin(), shape.kv_lens.end(), int64_t{0});
  const int64_t q_size = int64_t{num_tokens_} * shape.num_heads * shape.head_dim;
  q_ = DeviceArray<uint16_t>(static_cast<size_t>(q_size));
  fill_random_bf16(q_.data(), q_size, shape.seed);
  cu_seqlens_q_ = DeviceArray<int32_t>(running_sums(shape.q_lens));
  cu_seqlens_k_ = DeviceArray<int32_t>(running_sums(shape.kv_lens));
  seq_lens_ = DeviceArray<int32_t>(shape.kv_lens);
  if (shape.sinks) {
    sinks_ = DeviceArray<float>(random_floats(shape.num_heads, -1.0f, 3.0f, shape.seed + 11));
  }
  if (shape.scales) {
    k_scale_ = DeviceArray<float>(random_floats(shape.num_kv_heads, 0.02f, 2.0f, shape.seed + 12));
    v_scale_ = DeviceArray<float>(random_floats(shape.num_kv_heads, 0.02f, 2.0f, shape.seed + 13));
  }
  if (shape.tree) {
    tree_mask_ = DeviceArray<uint64_t>(random_trees(shape.q_lens, shape.seed + 17));
  }
  fill_cache();
}

void AttentionInputs::fill_cache() {
  const int block_size = shape_.block_size;
  int64_t slots = num_kv_tokens_;
  if (block_size > 0) {
    int64_t used = 0;
    for (const int length : shape_.kv_lens) {
      used += blocks_of(length, block_size);
      block_table_stride_ = std::max(block_table_stride_, blocks_of(length, block_size) + 3);
    }
    num_blocks_ = std::max(shape_.min_num_blocks, 2 * used + 1);
    const std::vector<int32_t> blocks = draw_blocks(used, num_blocks_, shape_.seed + 14);
    std::vector<int32_t> table(shape_.kv_lens.size() * static_cast<size_t>(block_table_stride_),
                               kFarOutside);
    auto next = blocks.begin();
    for (size_t s = 0; s < shape_.kv_lens.size(); ++s) {
      const int64_t count = blocks_of(shape_.kv_lens[s], block_size);
      std::copy_n(next, count, table.begin() + static_cast<int64_t>(s) * block_table_stride_);
      next += count;
    }
    block_table_ = DeviceArray<int32_t>(table);
    if (shape_.token_scales) fill_token_scales(table);
    slots = num_blocks_ * block_size;
  }
  const int64_t bytes = slots * shape_.num_kv_heads * dtype_bytes(shape_.kv_dtype, shape_.head_dim);
  for (DeviceArray<uint8_t>* cache : {&k_, &v_}) {
    *cache = DeviceArray<uint8_t>(static_cast<size_t>(bytes));
    cache->fill_bytes(0xFF);
    fill_random_cache(args(), cache->data(), num_kv_tokens_, cu_seqlens_k_.data(),
                      shape_.seed + (cache == &k_ ? 15 : 16));
  }
}

// From 0.0001 to 1, evenly in the logarithm; NaN in slots that hold no token.
void AttentionInputs::fill_token_scales(const std::vector<int32_t>& table) {
  const int block_size = shape_.block_size;
  std::mt19937_64 rng(shape_.seed + 18);
  for (DeviceArray<float>* scales : {&k_scale_, &v_scale_}) {
    std::vector<float> values(static_cast<size_t>(num_blocks_ * shape_.num_kv_heads * block_size),
                              std::nanf(""));
    for (size_t s = 0; s < shape_.kv_lens.size(); ++s) {
      for (int key = 0; key < shape_.kv_lens[s]; ++key) {
        const int64_t block = table[s * static_cast<size_t>(block_table_stride_) +
                                    static_cast<size_t>(key / block_size)];
        for (int head = 0; head < shape_.num_kv_heads; ++head) {
          const int64_t row = (block * shape_.num_kv_heads + head) * block_size + key % block_size;
          values[static_cast<size_t>(row)] =
              std::pow(10.0f, -4.0f * static_cast<float>(rng() >> 40) * 0x1.0p-24f);
        }
      }
    }
    *scales = DeviceArray<float>(values);
  }
}

void AttentionInputs::set_lengths(const std::vector<int>& kv_lens) {
  seq_lens_.upload(kv_lens);
  shape_.kv_lens = kv_lens;
}

ReferenceAttentionArgs AttentionInputs::args() const {
  ReferenceAttentionArgs args;
  args.q = q_.data();
  args.k = k_.data();
  args.v = v_.data();
  args.kv_dtype = shape_.kv_dtype;
  args.num_tokens = num_tokens_;
  args.num_seqs = static_cast<int>(shape_.q_lens.size());
  args.num_heads = shape_.num_heads;
  args.num_kv_heads = shape_.num_kv_heads;
  args.head_dim = shape_.head_dim;
  args.cu_seqlens_q = cu_seqlens_q_.data();
  args.cu_seqlens_k = shape_.block_size > 0 ? nullptr : cu_seqlens_k_.data();
  args.seq_lens = seq_lens_.data();
  args.block_table = shape_.block_size > 0 ? block_table_.data() : nullptr;
  args.block_table_stride = block_table_stride_;
  args.block_size = shape_.block_size;
  args.scale = shape_.sharpness / std::sqrt(static_cast<float>(shape_.head_dim));
  args.softcap = shape_.softcap;
  args.window_left = shape_.window_left;
  args.window_right = shape_.window_right;
  args.chunk = shape_.chunk;
  args.sinks = sinks_.data();
  args.k_scale = k_scale_.data();
  args.v_scale = v_scale_.data();
  args.token_scales = shape_.token_scales;
  args.tree_mask = tree_mask_.data();
  return args;
}

AttentionOutputs::AttentionOutputs(const AttentionInputs& inputs)
    : out_(static_cast<size_t>(inputs.num_tokens()) * inputs.shape().num_heads *
           inputs.shape().head_dim),
      lse_(static_cast<size_t>(inputs.num_tokens()) * inputs.shape().num_heads) {
  poison();
}

void AttentionOutputs::poison() {
  out_.fill_bytes(0xFF);
  lse_.fill_bytes(0xFF);
}

std::string judge_attention(const AttentionInputs& inputs, const AttentionOutputs& outputs) {
  ReferenceAttentionArgs args = inputs.args();
  const std::vector<uint16_t> out = outputs.download_out();
  const std::vector<float> lse = outputs.download_lse();
  const DeviceArray<float> exact_out(out.size()), rounded_out(out.size()), exact_lse(lse.size());
  args.out = exact_out.data();
  args.lse = exact_lse.data();
  attention_reference(args, nullptr);
  args.out = rounded_out.data();
  args.working_precision = true;
  attention_reference(args, nullptr);
  const std::vector<float> exact = exact_out.download();
  const std::vector<float> rounded = rounded_out.download();
  const std::vector<float> want_lse = exact_lse.download();

  float rounding = 0.0f, error = 0.0f;
  size_t worst = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const float with_rounding = bf16_to_float(float_to_bf16(rounded[i]));
    rounding = std::max(rounding, std::abs(with_rounding - exact[i]));
    const float difference = std::abs(bf16_to_float(out[i]) - exact[i]);
    if (difference <= error) continue;
    error = difference;
    worst = i;
    if (std::isnan(difference)) break;
  }
  const float allowed = (inputs.shape().softcap > 0.0f ? 3.0f : 2.0f) * rounding + 1e-5f;
  if (!(error <= allowed)) {
    return format("out[{}] is {}, not {}: off by {}, at most {} is right", worst,
                  bf16_to_float(out[worst]), exact[worst], error, allowed);
  }
  for (size_t i = 0; i < lse.size(); ++i) {
    if (lse[i] == want_lse[i]) continue;  // both may be -infinity
    if (!(std::abs(lse[i] - want_lse[i]) <= kLseTolerance)) {
      return format("lse[{}] is {}, not {}", i, lse[i], want_lse[i]);
    }
  }
  return {};
}

}  // namespace octavo::backends::cuda
