// What the tests of write_kv need: random projections, a poisoned cache, and a judgement of every
// byte by loops in double precision.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::backends::cuda {

enum class KvFormat { kBf16, kFp8Tensor, kFp8Head, kFp8TokenHead };

struct WriteCase {
  int num_tokens = 5;
  int num_heads = 8;
  int num_kv_heads = 2;
  int head_dim = 128;
  int rotary_dim = 128;
  int block_size = 16;
  KvFormat format = KvFormat::kBf16;
  float attention_factor = 1.0f;
  float magnitude = 1.0f;
  int max_position = 5000;
  int num_padding = 0;  // tokens without a slot
  uint64_t seed = 1;

  bool fp8() const { return format != KvFormat::kBf16; }
  std::string describe() const;
};

// One matrix [num_tokens, q | k | v] as a fused projection leaves it, and where each token goes.
struct WriteInputs {
  explicit WriteInputs(const WriteCase& shape);

  int64_t rows() const { return num_blocks * c.num_kv_heads * c.block_size; }  // of the cache
  int64_t cache_row(int64_t slot, int head) const {
    return (slot / c.block_size * c.num_kv_heads + head) * c.block_size + slot % c.block_size;
  }
  double input(int token, int part_head, int dim) const;
  // The exact value after rotation; `bound`: what the angle's rounding may shift it by.
  double rotated(int token, int part_head, int dim, double& bound) const;

  WriteCase c;
  int row = 0;
  int64_t num_blocks = 0;
  std::vector<uint16_t> qkv;
  std::vector<int32_t> positions;
  std::vector<float> inv_freq, k_scale, v_scale;
  std::vector<int64_t> slot_mapping;
};

struct Written {
  std::vector<uint16_t> qkv;
  std::vector<uint8_t> k, v;
  std::vector<float> k_scale, v_scale;
};

// What write_kv makes of the inputs.
Written run_write_kv(const WriteInputs& inputs);

// Empty, or the first value that is wrong, or was touched though no token goes there.
std::string judge_write_kv(const WriteInputs& inputs, const Written& got);

}  // namespace octavo::backends::cuda
