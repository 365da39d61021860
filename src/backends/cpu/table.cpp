#include "backends/cpu/table.h"

#include <algorithm>

#include "backends/cpu/attention.h"
#include "backends/cpu/fused.h"
#include "backends/cpu/linear.h"
#include "backends/cpu/row_ops.h"
#include "backends/cpu/workspace.h"

namespace octavo::backends::cpu {
namespace {

using ops::ActivationMulArgs;
using ops::AttentionArgs;
using ops::ExecContext;
using ops::LinearArgs;
using ops::LinearResidualArgs;
using ops::NormGatedMlpArgs;
using ops::NormQkvRopeWriteArgs;
using ops::Ops;
using ops::SoftcapArgs;

// The contract's function pointers carry no data: which micro-kernels a row uses is a template
// argument.
template <const FloatKernels& kKernels>
void float32(ExecContext& ctx, const LinearArgs& a) {
  linear_float(ctx, a, kKernels, false);
}
template <const FloatKernels& kKernels>
void bfloat16_as_float(ExecContext& ctx, const LinearArgs& a) {
  linear_float(ctx, a, kKernels, true);
}
template <const Bf16Kernels& kKernels>
void bfloat16(ExecContext& ctx, const LinearArgs& a) {
  linear_bf16(ctx, a, kKernels);
}
template <const Int8Kernels& kKernels>
void int8(ExecContext& ctx, const LinearArgs& a) {
  linear_int8(ctx, a, kKernels);
}
template <const Int8Kernels& kKernels, const FloatKernels& kFloats>
constexpr FusedKernels kFused = {kKernels, kFloats, int8<kKernels>};
template <const Int8Kernels& kKernels, const FloatKernels& kFloats>
void project(const Ops& ops, ExecContext& ctx, const NormQkvRopeWriteArgs& a) {
  fused_norm_qkv_rope_write(ops, ctx, a, kFused<kKernels, kFloats>);
}
template <const Int8Kernels& kKernels, const FloatKernels& kFloats>
void add_linear(const Ops& ops, ExecContext& ctx, const LinearResidualArgs& a) {
  fused_linear_residual(ops, ctx, a, kFused<kKernels, kFloats>);
}
template <const Int8Kernels& kKernels, const FloatKernels& kFloats>
void add_mlp(const Ops& ops, ExecContext& ctx, const NormGatedMlpArgs& a) {
  fused_norm_gated_mlp(ops, ctx, a, kFused<kKernels, kFloats>);
}
template <const FloatKernels& kKernels>
void attend(ExecContext& ctx, const AttentionArgs& a) {
  attention(ctx, a, kKernels);
}
template <const FloatKernels& kKernels, const AttentionKernel* kPreferred>
void attend_bfloat16(ExecContext& ctx, const AttentionArgs& a) {
  attention(ctx, a, kKernels, kPreferred);
}
template <const FloatKernels& kKernels>
void activate(ExecContext& ctx, const ActivationMulArgs& a) {
  activation_mul(ctx, a, kKernels);
}
template <const FloatKernels& kKernels>
void cap(ExecContext& ctx, const SoftcapArgs& a) {
  softcap(ctx, a, kKernels);
}

constexpr DTypeSet dtype_range(DType first, DType last) {
  return (dtype_bit(last) << 1) - dtype_bit(first);
}
constexpr DTypeSet kInteger = dtype_range(DType::kQ4_0, DType::kTQ1_0);
constexpr DTypeSet kAnyWeight = dtype_range(DType::kQ4_0, DType::kQ2_0) | dtype_bit(DType::kF32) |
                                dtype_bit(DType::kF16) | dtype_bit(DType::kBF16) |
                                dtype_bit(DType::kF8E4M3);

constexpr Arithmetic kFloat32 = Arithmetic::kFloat32;
constexpr Arithmetic kBFloat16 = Arithmetic::kBFloat16;
constexpr Arithmetic kInt8 = Arithmetic::kInt8;

const Kernel kTable[] = {
    {"linear", kInteger, kInt8, Isa::kGeneric, true, "int8_generic", int8<kInt8Generic>},
    {"linear", kInteger, kInt8, Isa::kAvx2, true, "int8_avx2", int8<kInt8Avx2>, 8},
    {"linear", kInteger, kInt8, Isa::kAvx512Vnni, true, "int8_avx512_vnni", int8<kInt8Avx512Vnni>,
     16},
    {"linear", kAnyWeight, kFloat32, Isa::kGeneric, true, "float_generic", float32<kFloatGeneric>},
    {"linear", kAnyWeight, kFloat32, Isa::kAvx2, true, "float_avx2", float32<kFloatAvx2>, 8},
    {"linear", kAnyWeight, kFloat32, Isa::kAvx512, true, "float_avx512", float32<kFloatAvx512>, 16},
    {"linear", kAnyWeight, kBFloat16, Isa::kGeneric, true, "bf16_as_float_generic",
     bfloat16_as_float<kFloatGeneric>},
    {"linear", kAnyWeight, kBFloat16, Isa::kAvx2, true, "bf16_as_float_avx2",
     bfloat16_as_float<kFloatAvx2>, 8},
    {"linear", kAnyWeight, kBFloat16, Isa::kAvx512, true, "bf16_as_float_avx512",
     bfloat16_as_float<kFloatAvx512>, 16},
    {"linear", dtype_bit(DType::kBF16), kBFloat16, Isa::kAvx512Bf16, true, "bf16_avx512",
     bfloat16<kBf16Avx512>, 16},
    {"attention", 0, kFloat32, Isa::kGeneric, true, "attention_generic", attend<kFloatGeneric>},
    {"attention", 0, kFloat32, Isa::kAvx2, true, "attention_avx2", attend<kFloatAvx2>},
    {"attention", 0, kFloat32, Isa::kAvx512, true, "attention_avx512", attend<kFloatAvx512>},
    {"attention", 0, kBFloat16, Isa::kAvx512Bf16, true, "attention_bf16_avx512",
     attend_bfloat16<kFloatAvx512, kAttentionBf16Avx512>},
    {"activation_mul", 0, kFloat32, Isa::kGeneric, true, "activation_mul_generic",
     activate<kFloatGeneric>},
    {"activation_mul", 0, kFloat32, Isa::kAvx2, true, "activation_mul_avx2", activate<kFloatAvx2>},
    {"activation_mul", 0, kFloat32, Isa::kAvx512, true, "activation_mul_avx512",
     activate<kFloatAvx512>},
    {"softcap", 0, kFloat32, Isa::kGeneric, true, "softcap_generic", cap<kFloatGeneric>},
    {"softcap", 0, kFloat32, Isa::kAvx2, true, "softcap_avx2", cap<kFloatAvx2>},
    {"softcap", 0, kFloat32, Isa::kAvx512, true, "softcap_avx512", cap<kFloatAvx512>},
    {"embed", 0, kFloat32, Isa::kGeneric, true, "embed_generic", embed},
    {"rms_norm", 0, kFloat32, Isa::kGeneric, true, "rms_norm_generic", rms_norm},
    {"prepare_input", 0, kFloat32, Isa::kGeneric, true, "prepare_input_generic", prepare_input},
    {"rope", 0, kFloat32, Isa::kGeneric, true, "rope_generic", rope},
    {"scale_queries", 0, kFloat32, Isa::kGeneric, true, "scale_queries_generic", scale_queries},
    {"write_kv", 0, kFloat32, Isa::kGeneric, true, "write_kv_generic", write_kv},
    {"add", 0, kFloat32, Isa::kGeneric, true, "add_generic", add},
    {"gather_rows", 0, kFloat32, Isa::kGeneric, true, "gather_rows_generic", gather_rows},
    {"route", 0, kFloat32, Isa::kGeneric, true, "route_generic", route},
    {"combine_experts", 0, kFloat32, Isa::kGeneric, true, "combine_experts_generic",
     combine_experts},
    {"norm_qkv_rope_write", 0, kFloat32, Isa::kGeneric, true, "norm_qkv_rope_write_int8_generic",
     project<kInt8Generic, kFloatGeneric>},
    {"norm_qkv_rope_write", 0, kFloat32, Isa::kAvx2, true, "norm_qkv_rope_write_int8_avx2",
     project<kInt8Avx2, kFloatAvx2>},
    {"norm_qkv_rope_write", 0, kFloat32, Isa::kAvx512Vnni, true,
     "norm_qkv_rope_write_int8_avx512_vnni", project<kInt8Avx512Vnni, kFloatAvx512>},
    {"linear_residual", 0, kFloat32, Isa::kGeneric, true, "linear_residual_int8_generic",
     add_linear<kInt8Generic, kFloatGeneric>},
    {"linear_residual", 0, kFloat32, Isa::kAvx2, true, "linear_residual_int8_avx2",
     add_linear<kInt8Avx2, kFloatAvx2>},
    {"linear_residual", 0, kFloat32, Isa::kAvx512Vnni, true, "linear_residual_int8_avx512_vnni",
     add_linear<kInt8Avx512Vnni, kFloatAvx512>},
    {"norm_gated_mlp", 0, kFloat32, Isa::kGeneric, true, "norm_gated_mlp_int8_generic",
     add_mlp<kInt8Generic, kFloatGeneric>},
    {"norm_gated_mlp", 0, kFloat32, Isa::kAvx2, true, "norm_gated_mlp_int8_avx2",
     add_mlp<kInt8Avx2, kFloatAvx2>},
    {"norm_gated_mlp", 0, kFloat32, Isa::kAvx512Vnni, true, "norm_gated_mlp_int8_avx512_vnni",
     add_mlp<kInt8Avx512Vnni, kFloatAvx512>},
};

}  // namespace

std::span<const Kernel> kernel_table() {
  return kTable;
}

int64_t workspace_bytes(int64_t max_rows, int64_t max_cols, int num_threads) {
  const int64_t units =
      round_up((max_rows + 1) * static_cast<int64_t>(sizeof(int32_t)), kCacheLine);
  return std::max(linear_workspace_bytes(max_rows, max_cols, num_threads),
                  units + attention_workspace_bytes(max_cols, num_threads));
}

}  // namespace octavo::backends::cpu
