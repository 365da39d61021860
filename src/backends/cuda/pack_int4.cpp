#include "backends/cuda/pack_int4.h"

#include <atomic>
#include <vector>

#include "backends/cuda/few_tokens_streamed.h"
#include "backends/cuda/ops_state.h"
#include "backends/cuda/tile/int4_tiles.h"
#include "base/check.h"
#include "base/thread_pool.h"

namespace octavo::backends::cuda {

bool keeps_int4(const ops::Weight& form) {
  const int group = int4_group(form.group, form.cols);
  return (form.dtype == DType::kQ4_0 || form.dtype == DType::kQ5_0) && group > 0 &&
         form.input.rounding == ops::InputRounding::kNone && streams_int4(form.cols, group);
}

ops::Weight measure_int4(const ops::Weight& form) {
  ops::Weight weight;
  weight.layout = ops::PackedLayout::kInt4Tiles;
  weight.dtype = DType::kQ4_0;
  weight.rows = form.rows;
  weight.cols = form.cols;
  weight.group = int4_group(form.group, form.cols);
  weight.layout_bytes = int4_tiles(weight).bytes();
  weight.input = form.input;
  return weight;
}

Result<std::optional<ops::Weight>> pack_int4(ops::PackContext& context, const Tensor& tensor,
                                             const ops::Weight& form) {
  auto& device = static_cast<CudaDevice&>(context.device);
  OCTAVO_TRY(OCTAVO_TRY(OpsState::open(device))->reserve_decoded());
  ops::Weight weight = measure_int4(form);
  const Int4Tiles tiles = int4_tiles(weight);
  std::vector<std::byte> packed(static_cast<size_t>(tiles.bytes()));
  std::atomic<bool> fits = true;
  auto pack = [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end && fits; ++row) {
      const std::byte* blocks = tensor.data + row * dtype_bytes(tensor.dtype, tiles.cols);
      if (!pack_int4_row(tiles, row, blocks, tensor.dtype, packed.data())) fits = false;
    }
  };
  if (context.pool != nullptr) {
    context.pool->parallel_for(tiles.rows, kInt4Rows, pack);
  } else {
    pack(0, tiles.rows, 0);
  }
  if (!fits) return std::optional<ops::Weight>();
  const Buffer buffer = OCTAVO_TRY(device.allocate(tiles.bytes(), tensor.name));
  device.copy_to_device(buffer.data.get(), packed.data(), tiles.bytes());
  weight.data = buffer.data.get();
  weight.owner = buffer.data;
  return std::optional(std::move(weight));
}

}  // namespace octavo::backends::cuda
