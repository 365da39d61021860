// What the tests of the decode kernels share: each runs for Hopper's kernel and for the portable
// one.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cuda/attention_decode.h"
#include "tests/gpu/attention_args.h"

namespace octavo::backends::cuda {

class Workspace {
 public:
  explicit Workspace(const DecodeArgs& args) : memory_(decode_workspace_bytes(args)) {
    memory_.fill_bytes(0xFF);  // a plan must not count on zeros
  }
  void* data() const { return memory_.data(); }

 private:
  DeviceArray<uint8_t> memory_;
};

class DecodeAttentionTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() ? !has_gpu() : !has_hopper()) GTEST_SKIP() << "no such GPU here";
  }

  DecodeLaunch launch() const { return {.overlap_previous = false, .portable = GetParam()}; }

  void run(const DecodeArgs& args, int times = 1) const {
    const Workspace workspace(args);
    ASSERT_TRUE(plan_decode(args, workspace.data(), nullptr).ok());
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(decode_attention(args, workspace.data(), nullptr, launch()).ok());
    }
    check_cuda(cudaDeviceSynchronize(), "decode_attention");
  }

  void expect_right(const AttentionCase& shape) const {
    const AttentionInputs inputs(shape);
    const AttentionOutputs outputs(inputs);
    run(decode_args(inputs, outputs), 2);  // the second launch finds the counters of the first
    EXPECT_EQ(judge_attention(inputs, outputs), "") << shape.describe();
  }

  // Output rows of the sequences, bit for bit.
  std::vector<uint16_t> bits(const AttentionInputs& inputs, DecodeSplits splits = {}) const {
    const AttentionOutputs outputs(inputs);
    DecodeArgs args = decode_args(inputs, outputs);
    args.splits = splits;
    run(args);
    return outputs.download_out();
  }
};

inline std::vector<int> ones(size_t count) {
  return std::vector<int>(count, 1);
}

inline std::vector<int> random_lengths(int count, int low, int high, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(low + static_cast<int>(rng() % static_cast<uint64_t>(high - low + 1)));
  }
  return lengths;
}

}  // namespace octavo::backends::cuda
