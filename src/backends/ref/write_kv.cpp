#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/ref/ref.h"
#include "tensor/float16.h"

namespace octavo::backends::ref {
namespace {

void quantize(std::byte* row, const float* values, int64_t head_dim) {
  float largest = 0;
  bool finite = true;
  for (int64_t d = 0; d < head_dim; ++d) {
    largest = std::max(largest, std::fabs(values[d]));
    finite = finite && std::isfinite(values[d]);
  }
  float scale = largest < ops::kLeastKvMagnitude ? 0 : largest / 127;
  if (!finite) scale = std::numeric_limits<float>::quiet_NaN();
  for (int64_t d = 0; d < head_dim; ++d) {
    const bool counts = finite && scale > 0;
    const float code = counts ? std::nearbyint(values[d] / scale) : 0;
    reinterpret_cast<int8_t*>(row)[d] = static_cast<int8_t>(code);
  }
  std::memcpy(row + head_dim, &scale, sizeof(scale));
}

void store(std::byte* row, DType dtype, const float* values, int64_t head_dim) {
  if (dtype == DType::kI8) return quantize(row, values, head_dim);
  for (int64_t d = 0; d < head_dim; ++d) {
    switch (dtype) {
      case DType::kF16:
        reinterpret_cast<uint16_t*>(row)[d] = float_to_fp16(values[d]);
        break;
      case DType::kBF16:
        reinterpret_cast<uint16_t*>(row)[d] = float_to_bf16(values[d]);
        break;
      default:
        reinterpret_cast<float*>(row)[d] = values[d];
    }
  }
}

}  // namespace

void write_kv(ops::ExecContext&, const ops::WriteKvArgs& a) {
  for (int64_t t = 0; t < a.k.rows; ++t) {
    const int64_t block = a.slot_mapping[t] / a.kv.block_size;
    const int64_t slot = a.slot_mapping[t] % a.kv.block_size;
    for (int64_t h = 0; h < a.kv.num_kv_heads; ++h) {
      const int64_t source = h * a.kv.head_dim;
      store(a.kv.row(a.kv.k, block, h, slot), a.kv.dtype, a.k.row<float>(t) + source,
            a.kv.head_dim);
      store(a.kv.row(a.kv.v, block, h, slot), a.kv.dtype, a.v.row<float>(t) + source,
            a.kv.head_dim);
    }
  }
}

}  // namespace octavo::backends::ref
