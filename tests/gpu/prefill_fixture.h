// What the tests of the prefill kernels share: each runs for Hopper's kernels and for the portable
// ones.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "backends/cuda/attention_prefill.h"
#include "tests/gpu/attention_args.h"

namespace octavo::backends::cuda {

inline AttentionCase make_case(std::vector<int> q_lens, std::vector<int> kv_lens, int num_heads,
                               int num_kv_heads, int head_dim, int block_size) {
  AttentionCase shape;
  shape.q_lens = std::move(q_lens);
  shape.kv_lens = std::move(kv_lens);
  shape.num_heads = num_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = head_dim;
  shape.block_size = block_size;
  return shape;
}

class AttentionPrefill : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() ? !has_gpu() : !has_hopper()) GTEST_SKIP() << "no such GPU here";
  }

  PrefillArgs args(const AttentionInputs& inputs, const AttentionOutputs& outputs) const {
    PrefillArgs result = prefill_args(inputs, outputs);
    result.portable = GetParam();
    return result;
  }

  void run(const PrefillArgs& args) const {
    DeviceArray<uint8_t> workspace(prefill_workspace_bytes(args));
    workspace.fill_bytes(0xFF);  // a plan must not count on zeros
    const Status planned = plan_prefill(args, workspace.data(), nullptr);
    ASSERT_TRUE(planned.ok()) << planned.message();
    const Status ran = prefill_attention(args, workspace.data(), nullptr);
    ASSERT_TRUE(ran.ok()) << ran.message();
    check_cuda(cudaDeviceSynchronize(), "prefill_attention");
  }

  void expect_right(const AttentionCase& shape) const {
    SCOPED_TRACE(shape.describe());
    const AttentionInputs inputs(shape);
    const AttentionOutputs outputs(inputs);
    run(args(inputs, outputs));
    if (HasFatalFailure()) return;
    EXPECT_EQ(judge_attention(inputs, outputs), "");
  }
};

}  // namespace octavo::backends::cuda
