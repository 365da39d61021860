#include "backends/ref/ref.h"
#include "tensor/float16.h"

namespace octavo::backends::ref {
namespace {

void store(void* cache, DType dtype, int64_t index, float value) {
  switch (dtype) {
    case DType::kF16:
      static_cast<uint16_t*>(cache)[index] = float_to_fp16(value);
      break;
    case DType::kBF16:
      static_cast<uint16_t*>(cache)[index] = float_to_bf16(value);
      break;
    default:
      static_cast<float*>(cache)[index] = value;
  }
}

}  // namespace

void write_kv(ops::ExecContext&, const ops::WriteKvArgs& a) {
  for (int64_t t = 0; t < a.k.rows; ++t) {
    const int64_t block = a.slot_mapping[t] / a.kv.block_size;
    const int64_t slot = a.slot_mapping[t] % a.kv.block_size;
    for (int64_t h = 0; h < a.kv.num_kv_heads; ++h) {
      for (int64_t d = 0; d < a.kv.head_dim; ++d) {
        const int64_t row = (block * a.kv.num_kv_heads + h) * a.kv.block_size + slot;
        const int64_t source = h * a.kv.head_dim + d;
        store(a.kv.k, a.kv.dtype, row * a.kv.head_dim + d, a.k.row<float>(t)[source]);
        store(a.kv.v, a.kv.dtype, row * a.kv.head_dim + d, a.v.row<float>(t)[source]);
      }
    }
  }
}

}  // namespace octavo::backends::ref
