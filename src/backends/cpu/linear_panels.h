// The loops that the three linear drivers share: panels of weight rows over threads, activation
// rows in blocks that stay in L2, and the ragged last panel.
#pragma once

#include <algorithm>
#include <span>

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
// brought into a panel, and two tiles of sums (kRowBlock rows of kMaxPanel floats).
inline constexpr int64_t kLinearThreadBytes = 96 << 10;

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

// Panel `p` of `w`, but for the rows of x and the output. `has_next`: the thread goes on with the
// panel behind it.
inline PanelTask panel_task(const ops::Weight& w, int panel, int64_t p, bool has_next) {
  PanelTask task;
  const int64_t first = p * panel;
  const bool packed = w.layout != ops::PackedLayout::kRowMajor;
  task.packed = packed ? w.row(first) : nullptr;  // panels lie as rows do
  for (int i = 0; i < panel && !packed; ++i) {
    task.weight_rows[i] = std::min(first + i, w.rows - 1);
    task.weights[i] = w.row(task.weight_rows[i]);
  }
  task.next = has_next && !packed ? w.row(first + panel) : nullptr;
  return task;
}

// One of the products that a region computes.
struct PanelJob {
  ops::LinearArgs args;
  bool adds = false;  // to what is in args.out

  int64_t num_panels(int panel) const { return (args.w->rows + panel - 1) / panel; }
};

// Panel `p` of a job times rows [row, row + kRowBlock) of x, by multiply(PanelTask, Arena&).
template <typename Multiply>
void compute_panel(const PanelJob& job, int panel, int64_t p, bool has_next, int64_t row,
                   Arena arena, const Multiply& multiply) {
  const ops::LinearArgs& a = job.args;
  PanelTask task = panel_task(*a.w, panel, p, has_next);
  task.row = row;
  task.num_rows = std::min(kRowBlock, a.x.rows - row);
  const int64_t first = p * panel;
  const int64_t width = std::min<int64_t>(panel, a.w->rows - first);
  float* const out = a.out.row<float>(row) + first;
  const bool apart = job.adds || width < panel;
  task.out = apart ? arena.take<float>(kRowBlock * kMaxPanel) : out;
  task.out_stride = apart ? panel : a.out.stride;
  multiply(task, arena);
  if (!apart && a.bias == nullptr) return;
  for (int64_t r = 0; r < task.num_rows; ++r) {
    const float* sums = task.out + r * task.out_stride;
    float* to = out + r * a.out.stride;
    for (int64_t i = 0; i < width; ++i) {
      const float value = sums[i] + (a.bias == nullptr ? 0 : a.bias[first + i]);
      to[i] = job.adds ? to[i] + value : value;
    }
  }
}

// Calls multiply(job's index, PanelTask, Arena&) for every panel and row block of all jobs, whose x
// have equally many rows; then adds the bias. Threads split the panels, so that each output is
// summed by one thread.
template <typename Multiply>
void for_each_panel(ops::ExecContext& ctx, std::span<const PanelJob> jobs, int panel, Arena shared,
                    const Multiply& multiply) {
  const int num_threads = ctx.pool->num_threads();
  auto* scratch = shared.take<std::byte>(num_threads * kLinearThreadBytes);
  int64_t num_panels = 0;
  for (const PanelJob& job : jobs) num_panels += job.num_panels(panel);
  const int64_t num_rows = jobs[0].args.x.rows;
  ctx.pool->parallel_for(num_panels, 1, [&](int64_t begin, int64_t end, int thread) {
    const Arena arena(scratch + thread * kLinearThreadBytes, kLinearThreadBytes);
    for (int64_t row = 0; row < num_rows; row += kRowBlock) {
      int64_t first = 0;  // panel of the job
      for (size_t j = 0; j < jobs.size() && first < end; ++j) {
        const int64_t last = first + jobs[j].num_panels(panel);
        for (int64_t p = std::max(begin, first); p < std::min(end, last); ++p) {
          compute_panel(jobs[j], panel, p - first, p + 1 < std::min(end, last), row, arena,
                        [&](const PanelTask& task, Arena& rest) { multiply(j, task, rest); });
        }
        first = last;
      }
    }
  });
}

}  // namespace octavo::backends::cpu
