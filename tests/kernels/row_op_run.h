// Runs the kernels of an op that works row by row.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "kernel_test_util.h"

namespace octavo::testing {

// Rows and columns: single values, odd tails, more than one thread's share.
inline const std::pair<int64_t, int64_t> kShapes[] = {{1, 1},  {1, 576},   {3, 7},    {17, 33},
                                                      {5, 64}, {2, 20001}, {150, 576}};

// Runs every kernel of `op` with 1, 2 and 3 threads on fresh copies of `initial`, expects the bits
// of the first run from the others, and hands the result to `check`.
template <typename Args, typename MakeArgs, typename Check>
void run_all(std::string_view op, const PaddedMat& initial, const MakeArgs& make_args,
             const Check& check) {
  const auto kernels = runnable_kernels(op);
  ASSERT_FALSE(kernels.empty());
  for (const backends::cpu::Kernel* kernel : kernels) {
    SCOPED_TRACE(kernel->name);
    std::vector<PaddedMat> results;
    for (const int threads : {1, 2, 3}) {
      const PaddedMat& out = results.emplace_back(initial);
      Context context(threads, 16, 64);
      call<Args>(*kernel, context, make_args(out));
      ASSERT_TRUE(out.padding_is_untouched());
      ASSERT_TRUE(same_bits(results.front(), out)) << threads << " threads";
    }
    check(results.front());
  }
}

}  // namespace octavo::testing
