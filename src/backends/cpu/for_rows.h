// Rows over threads, for ops that do little work per value.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

// Values below which waking the other threads (a few microseconds) costs more than it saves.
inline constexpr int64_t kMinValuesPerThread = 16384;

// fn(row) for every row in [0, rows); `cols` is the work of one, in values. A small call runs on
// the calling thread alone.
template <typename Fn>
void for_rows(ops::ExecContext& ctx, int64_t rows, int64_t cols, const Fn& fn) {
  const int64_t grain = std::max<int64_t>(1, kMinValuesPerThread / std::max<int64_t>(1, cols));
  ctx.pool->parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) fn(row);
  });
}

}  // namespace octavo::backends::cpu
