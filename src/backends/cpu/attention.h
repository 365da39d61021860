// Attention over the block table on the CPU.
#pragma once

#include "backends/cpu/micro_kernels.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

// `preferred`: kernels for some types of cached rows, which come before those in float; or null.
void attention(ops::ExecContext& ctx, const ops::AttentionArgs& args, const FloatKernels& kernels,
               const AttentionKernel* preferred = nullptr);

// Room for tiles that are computed out of order, as far as it goes: with less there are more
// rounds, or none.
inline constexpr int64_t kAttentionPartialBytes = 4 << 20;

// Workspace for calls with head_dim <= max_head_dim: what each thread needs, and the above.
int64_t attention_workspace_bytes(int64_t max_head_dim, int num_threads);

}  // namespace octavo::backends::cpu
