#include "backends/select.h"

#include <algorithm>
#include <optional>

#include "backends/cpu/device_cpu.h"
#include "backends/cpu/pack_lanes.h"
#include "backends/pack_row_major.h"
#include "base/format.h"

namespace octavo::backends {
namespace {

using cpu::Isa;
using cpu::Kernel;

// Calls visit(slot, weights, what) for every function pointer of `ops` that is in the table; linear
// has one per weight type.
template <typename OpsRef, typename Visit>
void for_each_slot(OpsRef& ops, const Visit& visit) {
  visit(ops.embed, 0, "embed");
  visit(ops.rms_norm, 0, "rms_norm");
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    visit(ops.linear_by_dtype[i], cpu::dtype_bit(dtype),
          format("linear {}", dtype_traits(dtype).name));
  }
  visit(ops.prepare_input, 0, "prepare_input");
  visit(ops.rope, 0, "rope");
  visit(ops.write_kv, 0, "write_kv");
  visit(ops.attention, 0, "attention");
  visit(ops.scale_queries, 0, "scale_queries");
  visit(ops.activation_mul, 0, "activation_mul");
  visit(ops.softcap, 0, "softcap");
  visit(ops.add, 0, "add");
  visit(ops.gather_rows, 0, "gather_rows");
  visit(ops.route, 0, "route");
  visit(ops.combine_experts, 0, "combine_experts");
  visit(ops.norm_qkv_rope_write, 0, "norm_qkv_rope_write");
  visit(ops.linear_residual, 0, "linear_residual");
  visit(ops.norm_gated_mlp, 0, "norm_gated_mlp");
}

// What kAuto (and kInt8, which only block types have) means for a weight type.
Arithmetic resolve(Arithmetic arithmetic, cpu::DTypeSet weights, Isa set) {
  if (weights == 0) return Arithmetic::kFloat32;
  if (arithmetic == Arithmetic::kFloat32 || arithmetic == Arithmetic::kBFloat16) return arithmetic;
  const auto table = cpu::kernel_table();
  const bool integers = std::any_of(table.begin(), table.end(), [&](const Kernel& row) {
    return row.arithmetic == Arithmetic::kInt8 && (row.weights & weights) != 0;
  });
  if (integers) return Arithmetic::kInt8;
  const bool bf16_products = weights == cpu::dtype_bit(DType::kBF16) && set >= Isa::kAvx512Bf16;
  return bf16_products ? Arithmetic::kBFloat16 : Arithmetic::kFloat32;
}

// The row with the widest instruction set that `set` includes.
template <typename Fn>
Fn best_fn(cpu::DTypeSet weights, Arithmetic arithmetic, Isa set) {
  const Kernel* best = nullptr;
  for (const Kernel& row : cpu::kernel_table()) {
    if (!std::holds_alternative<Fn>(row.fn) || row.isa > set) continue;
    if ((row.weights & weights) != weights || row.arithmetic != arithmetic) continue;
    if (best == nullptr || row.isa > best->isa) best = &row;
  }
  return best == nullptr ? nullptr : std::get<Fn>(best->fn);
}

Result<Isa> kernel_set(std::string_view forced) {
  if (forced.empty()) return cpu::best_isa();
  std::string usable;
  for (const std::string_view name : cpu::kIsaNames) {
    if (cpu::isa_supported(*cpu::parse_isa(name))) {
      usable += format("{}{}", usable.empty() ? "" : ", ", name);
    }
  }
  const std::optional<Isa> set = cpu::parse_isa(forced);
  if (!set) {
    return invalid_argument(format(
        "OCTAVO_KERNELS: no kernel set is called '{}'; this CPU can run: {}", forced, usable));
  }
  if (!cpu::isa_supported(*set)) {
    return unsupported(
        format("OCTAVO_KERNELS: this CPU cannot run the kernel set '{}'; it can "
               "run: {}",
               forced, usable));
  }
  return *set;
}

}  // namespace

Result<Backend> open_cpu(Arithmetic arithmetic, std::string_view forced, Packing packing) {
  const Isa set = OCTAVO_TRY(kernel_set(forced));
  Backend backend;
  backend.name = "cpu";
  backend.kernels = cpu::isa_name(set);
  backend.kernels_reason = forced.empty() ? "the best that this CPU can run" : "OCTAVO_KERNELS";
  backend.arithmetic = arithmetic == Arithmetic::kAuto ? Arithmetic::kInt8 : arithmetic;
  backend.device = &cpu::cpu_device();
  for_each_slot(backend.ops, [&](auto& slot, cpu::DTypeSet weights, const auto&) {
    using Fn = std::remove_reference_t<decltype(slot)>;
    // An op without weights that can round to bfloat16 does, unless float32 is asked for.
    slot = weights == 0 && arithmetic != Arithmetic::kFloat32
               ? best_fn<Fn>(weights, Arithmetic::kBFloat16, set)
               : nullptr;
    if (slot == nullptr) slot = best_fn<Fn>(weights, resolve(arithmetic, weights, set), set);
  });
  backend.ops.pack_weight = packing == Packing::kFast ? cpu::pack_weight : pack_row_major;
  backend.ops.workspace_bytes = cpu::workspace_bytes;
  ops::set_default_composites(backend.ops);
  return backend;
}

std::vector<ChosenKernel> chosen_kernels(const ops::Ops& ops) {
  std::vector<ChosenKernel> chosen;
  for_each_slot(ops, [&](const auto& slot, cpu::DTypeSet weights, const std::string& what) {
    for (const Kernel& row : cpu::kernel_table()) {
      if ((row.weights & weights) != weights || row.fn != cpu::KernelFn(slot)) continue;
      const std::string how =
          weights == 0 ? what : format("{} {}", what, arithmetic_name(row.arithmetic));
      chosen.push_back({how, &row});
    }
  });
  return chosen;
}

}  // namespace octavo::backends
