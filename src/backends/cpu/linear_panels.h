// The loops that the three linear drivers share: panels of weight rows over threads, activation
// rows in blocks that stay in L2, and the ragged last panel.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/micro_kernels.h"
#include "backends/cpu/workspace.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace octavo::backends::cpu {

// Activation rows that one unpacked panel is multiplied with. Unpacking costs about as much as
// multiplying 4 rows, so it is 3 % at 128; 128 rows of 1536 int8 values are 270 KB, a quarter of
// Zen 4's L2.
inline constexpr int64_t kRowBlock = 128;

// Per thread: an unpacked panel of at most 32 KB, as much for rows that are decoded before they are
// brought into a panel, and the sums of a ragged panel (kRowBlock rows of kMaxPanel floats).
inline constexpr int64_t kLinearThreadBytes = 80 << 10;

// The place of a block type in the arrays of micro_kernels.h; kNumUnpackedTypes or more for types
// that no kernel unpacks.
inline int quantized_index(DType dtype) {
  static_assert(static_cast<int>(DType::kMXFP4) - static_cast<int>(DType::kQ4_0) ==
                kNumUnpackedTypes - 1);
  return static_cast<int>(dtype) - static_cast<int>(DType::kQ4_0);
}

// One panel's work: rows [row, row + num_rows) of x times weight rows of `weights`, into out.
struct PanelTask {
  const void* weights[kMaxPanel];  // first byte of each weight row, unless they are packed
  int64_t weight_rows[kMaxPanel];  // which rows these are
  const std::byte* packed;         // of packed weights: the panel's first byte; else null
  const std::byte* next;           // of the panel that this thread computes next, or null
  int64_t row;
  int64_t num_rows;
  float* out;  // `num_rows` rows of a full panel's width
  int64_t out_stride;
};

// Bytes [begin, begin + size) of every weight row of a panel.
struct PanelRows {
  // Also fetches the same part of the next panel: the rows lie apart, which hardware does not
  // prefetch well, but those of a panel are one contiguous range. The next panel may be ragged;
  // then a little too much is fetched, which is harmless.
  PanelRows(const PanelTask& task, int panel, int64_t begin, int64_t size) {
    for (int r = 0; r < panel; ++r) {
      pointers[r] = static_cast<const std::byte*>(task.weights[r]) + begin;
    }
    if (task.next == nullptr) return;
    for (int64_t i = begin * panel; i < (begin + size) * panel; i += kCacheLine) {
      __builtin_prefetch(task.next + i, 0, 2);
    }
  }

  const void* pointers[kMaxPanel];
};

// Calls multiply(PanelTask, Arena&) for every panel and row block, then adds the bias. Threads
// split the panels, so that each output is summed by one thread.
template <typename Multiply>
void for_each_panel(ops::ExecContext& ctx, const ops::LinearArgs& a, int panel, Arena shared,
                    const Multiply& multiply) {
  const int num_threads = ctx.pool->num_threads();
  auto* scratch = shared.take<std::byte>(num_threads * kLinearThreadBytes);
  const int64_t num_panels = (a.w->rows + panel - 1) / panel;
  ctx.pool->parallel_for(num_panels, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = 0; row < a.x.rows; row += kRowBlock) {
      for (int64_t p = begin; p < end; ++p) {
        Arena arena(scratch + thread * kLinearThreadBytes, kLinearThreadBytes);
        const int64_t first = p * panel;
        const int64_t width = std::min<int64_t>(panel, a.w->rows - first);
        PanelTask task;
        const bool packed = a.w->layout != ops::PackedLayout::kRowMajor;
        task.packed = packed ? a.w->row(first) : nullptr;  // panels lie as rows do
        for (int i = 0; i < panel && !packed; ++i) {
          task.weight_rows[i] = first + std::min<int64_t>(i, width - 1);
          task.weights[i] = a.w->row(task.weight_rows[i]);
        }
        task.next = p + 1 < end && !packed ? a.w->row(first + panel) : nullptr;
        task.row = row;
        task.num_rows = std::min(kRowBlock, a.x.rows - row);
        float* const out = a.out.row<float>(row) + first;
        const bool ragged = width < panel;
        task.out = ragged ? arena.take<float>(kRowBlock * kMaxPanel) : out;
        task.out_stride = ragged ? panel : a.out.stride;
        multiply(task, arena);
        for (int64_t r = 0; r < task.num_rows && (ragged || a.bias != nullptr); ++r) {
          const float* sums = task.out + r * task.out_stride;
          for (int64_t i = 0; i < width; ++i) {
            out[r * a.out.stride + i] = sums[i] + (a.bias == nullptr ? 0 : a.bias[first + i]);
          }
        }
      }
    }
  });
}

}  // namespace octavo::backends::cpu
