#include "backends/cuda/backend_cuda.h"

#include "backends/cuda/device_cuda.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/ops_cuda.h"
#include "backends/cuda/ops_state.h"
#include "backends/cuda/pack_weight.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

ops::Ops make_ops(Packing packing) {
  ops::Ops ops;
  ops.activation_dtype = DType::kBF16;
  ops.embed = embed;
  ops.rms_norm = rms_norm;
  ops.linear_by_dtype[static_cast<int>(DType::kBF16)] = linear;
  ops.linear_by_dtype[static_cast<int>(DType::kF8E4M3)] = linear;
  ops.linear_by_dtype[static_cast<int>(DType::kQ4_0)] = linear;  // as kInt4Tiles
  ops.prepare_input = prepare_input;
  ops.rope = rope;
  ops.write_kv = write_kv_plain;
  ops.attention = attention_eager;
  ops.scale_queries = scale_queries;
  ops.activation_mul = activation_mul;
  ops.softcap = softcap;
  ops.add = add;
  ops.gather_rows = gather_rows;
  ops.route = route;
  ops.combine_experts = combine_experts;
  ops.draw_tokens = draw_tokens;
  ops.norm_qkv_rope_write = norm_qkv_rope_write;
  ops.linear_residual = linear_residual;
  ops.norm_gated_mlp = norm_gated_mlp;
  ops.linear_experts = linear_experts;
  ops.norm_lm_head = norm_lm_head;
  ops.pack_weight = packing == Packing::kNone ? measure_weight : pack_weight;
  ops.pack_codes = packing == Packing::kNone ? measure_codes : pack_codes;
  ops.workspace_bytes = workspace_bytes;
  ops::set_default_composites(ops);
  return ops;
}

Result<CudaDevice*> open_device() {
  try {
    CudaDevice* device = OCTAVO_TRY(CudaDevice::open(0));
    OCTAVO_TRY(OpsState::open(*device));
    return device;
  } catch (const DeviceError& error) {
    return unavailable(format("cuda:0: {}", error.what()));
  }
}

}  // namespace

Result<Backend> open_cuda(Arithmetic arithmetic, Packing packing) {
  if (arithmetic != Arithmetic::kAuto && arithmetic != Arithmetic::kBFloat16) {
    return unsupported(format("the backend 'cuda' computes in bfloat16 only, not in {}",
                              arithmetic_name(arithmetic)));
  }
  CudaDevice* device = OCTAVO_TRY(open_device());
  const DeviceProperties& properties = device->properties();
  Backend backend;
  backend.name = "cuda";
  backend.kernels = properties.compute_capability == 90 ? "sm_90a" : "sm_80";
  backend.kernels_reason = format("{} is sm_{}", properties.name, properties.compute_capability);
  backend.arithmetic = Arithmetic::kBFloat16;
  backend.compute_capability = properties.compute_capability;
  backend.device = device;
  backend.ops = make_ops(packing);
  return backend;
}

ops::OpFn<ops::AttentionArgs> attention_fn(const AttentionChoice& choice) {
  if (choice.name == "flash_attention_3") return attention_flash_3;
  if (choice.name == "flash_attention_2") return attention_flash_2;
  return attention_eager;
}

}  // namespace octavo::backends::cuda
