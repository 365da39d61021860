// What every test of a GPU attention kernel needs: ragged inputs in a poisoned cache, and a
// judgement against the fp32 reference. A paged cache is larger than needed, its blocks are handed
// out in random order, every slot that holds no token is NaN, and table entries beyond a sequence's
// length point far outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/attention_reference.h"
#include "tests/gpu/device_array.h"

namespace octavo::backends::cuda {

struct AttentionCase {
  std::vector<int> q_lens;   // query rows of each sequence
  std::vector<int> kv_lens;  // keys of each sequence
  int num_heads = 32;
  int num_kv_heads = 8;
  int head_dim = 128;
  int block_size = 16;  // 0: contiguous keys and values
  DType kv_dtype = DType::kBF16;
  float sharpness = 1.0f;  // of the softmax: times 1 / sqrt(head_dim)
  float softcap = 0.0f;
  int window_left = -1;
  int window_right = 0;
  int chunk = 0;
  bool sinks = false;
  bool scales = false;         // of K and V, random by head
  bool token_scales = false;   // of K and V, random by token and head; paged only
  bool tree = false;           // query tokens are the nodes of a random tree
  int64_t min_num_blocks = 0;  // of the pool; its last block is always used
  uint64_t seed = 1;

  std::string describe() const;
};

// The values depend on the seed and on the token, head and dimension alone: cases that differ in
// block size, masks or batch order by sequence hold the same numbers.
class AttentionInputs {
 public:
  explicit AttentionInputs(const AttentionCase& shape);

  const AttentionCase& shape() const { return shape_; }
  int num_tokens() const { return num_tokens_; }
  int64_t num_kv_tokens() const { return num_kv_tokens_; }
  int64_t num_blocks() const { return num_blocks_; }

  // Everything but out and lse. Other argument structs are filled from this one.
  ReferenceAttentionArgs args() const;

  // New lengths in the same device memory, for graphs; none may exceed what it was built with.
  void set_lengths(const std::vector<int>& kv_lens);

 private:
  void fill_cache();
  void fill_token_scales(const std::vector<int32_t>& table);

  AttentionCase shape_;
  int num_tokens_ = 0;
  int64_t num_kv_tokens_ = 0;
  int64_t num_blocks_ = 0;
  int64_t block_table_stride_ = 0;
  DeviceArray<uint16_t> q_;
  DeviceArray<uint8_t> k_, v_;
  DeviceArray<int32_t> cu_seqlens_q_, cu_seqlens_k_, seq_lens_, block_table_;
  DeviceArray<float> sinks_, k_scale_, v_scale_;
  DeviceArray<uint64_t> tree_mask_;
};

// What a kernel writes; NaN before it does.
class AttentionOutputs {
 public:
  explicit AttentionOutputs(const AttentionInputs& inputs);

  uint16_t* out() const { return out_.data(); }  // bfloat16
  float* lse() const { return lse_.data(); }
  void poison();

  std::vector<uint16_t> download_out() const { return out_.download(); }
  std::vector<float> download_lse() const { return lse_.download(); }

 private:
  DeviceArray<uint16_t> out_;
  DeviceArray<float> lse_;
};

// Empty where `outputs` is as near to the exact result as 16-bit arithmetic allows: at most twice
// (with softcap three times) as far as the reference that rounds what kernels round. Else what is
// wrong.
std::string judge_attention(const AttentionInputs& inputs, const AttentionOutputs& outputs);

}  // namespace octavo::backends::cuda
