#include "backends/cuda/tensor_map.h"

#include <cudaTypedefs.h>

#include "backends/cuda/driver_function.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

Result<PFN_cuTensorMapEncodeTiled_v12000> encode_function() {
  static void* const function = driver_function("cuTensorMapEncodeTiled", 12000);
  if (function == nullptr) return unsupported("no NVIDIA driver that can make tensor maps");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

Result<CUtensorMap> make_tensor_map(const TensorMapShape& shape) {
  const auto encode = OCTAVO_TRY(encode_function());
  constexpr std::array<uint32_t, 4> kEveryElement = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, shape.bytes ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             4, const_cast<void*>(shape.data), shape.sizes.data(), shape.strides_bytes.data(),
             shape.box.data(), kEveryElement.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
             shape.bytes ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return invalid_argument(format(
        "the driver refuses a tensor map of [{}, {}, {}, {}], box [{}, {}, {}, {}] (error {})",
        shape.sizes[3], shape.sizes[2], shape.sizes[1], shape.sizes[0], shape.box[3], shape.box[2],
        shape.box[1], shape.box[0], static_cast<int>(result)));
  }
  return map;
}

}  // namespace octavo::backends::cuda
