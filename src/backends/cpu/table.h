// THE table of the CPU backend: every kernel, what it computes and what it needs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

// A set of weight types, one bit each.
using DTypeSet = uint64_t;
constexpr DTypeSet dtype_bit(DType dtype) {
  return DTypeSet{1} << static_cast<int>(dtype);
}

// The alternative that is held says which op it is.
using KernelFn = std::variant<
    ops::OpFn<ops::EmbedArgs>, ops::OpFn<ops::RmsNormArgs>, ops::OpFn<ops::LinearArgs>,
    ops::OpFn<ops::PrepareInputArgs>, ops::OpFn<ops::RopeArgs>, ops::OpFn<ops::WriteKvArgs>,
    ops::OpFn<ops::AttentionArgs>, ops::OpFn<ops::ScaleQueriesArgs>,
    ops::OpFn<ops::ActivationMulArgs>, ops::OpFn<ops::SoftcapArgs>, ops::OpFn<ops::AddArgs>,
    ops::OpFn<ops::GatherRowsArgs>, ops::OpFn<ops::RouteArgs>, ops::OpFn<ops::CombineExpertsArgs>,
    ops::CompositeFn<ops::NormQkvRopeWriteArgs>, ops::CompositeFn<ops::LinearResidualArgs>,
    ops::CompositeFn<ops::NormGatedMlpArgs>>;

struct Kernel {
  std::string_view op;
  DTypeSet weights;       // linear: the weight types it reads; else 0
  Arithmetic arithmetic;  // how it computes: kFloat32 but for linear and attention
  Isa isa;                // the least set that can run it
  bool batch_invariant;   // the determinism that ops.h asks for
  std::string_view name;
  KernelFn fn;
  int packed_lanes = 0;  // linear: rows that it reads beside one another where they can be packed
};

std::span<const Kernel> kernel_table();

int64_t workspace_bytes(int64_t max_rows, int64_t max_cols, int num_threads);

}  // namespace octavo::backends::cpu
