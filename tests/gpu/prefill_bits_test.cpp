// What must be equal bit for bit, whatever the batch, the block size, the cut of a prompt or the
// order of work; and what prefill must agree on with decode and with itself in parts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backends/cuda/graph.h"
#include "backends/cuda/stream.h"
#include "tensor/float16.h"
#include "tests/gpu/prefill_fixture.h"

namespace octavo::backends::cuda {
namespace {

// A7, A8: chunks on a cached prefix, with the same bits whatever the block size.
TEST_P(AttentionPrefill, CachedPrefixAllBlockSizes) {
  for (const int head_dim : {64, 128, 256}) {
    std::vector<uint16_t> first;
    for (const int block_size : {16, 32, 64, 128, 256, 0}) {
      if (head_dim == 256 && block_size == 0) continue;  // another kernel
      const AttentionCase shape = make_case({512, 100}, {8193, 100}, 32, 8, head_dim, block_size);
      SCOPED_TRACE(shape.describe());
      const AttentionInputs inputs(shape);
      const AttentionOutputs outputs(inputs);
      run(args(inputs, outputs));
      ASSERT_EQ(judge_attention(inputs, outputs), "");
      if (first.empty()) first = outputs.download_out();
      EXPECT_TRUE(outputs.download_out() == first) << "other bits";
    }
  }
}

// A row's bits depend on nothing else in the batch, nor on how the prompt was cut.
TEST_P(AttentionPrefill, SameBitsWhateverTheBatch) {
  struct Kind {
    int head_dim;
    DType dtype;
    float sharpness;  // so high that maxima are raised in some rows only
  };
  for (const auto& [head_dim, dtype, sharpness] : {Kind{64, DType::kBF16, 1.0f},
                                                   {128, DType::kBF16, 1.0f},
                                                   {256, DType::kBF16, 1.0f},
                                                   {128, DType::kF8E4M3, 1.0f},
                                                   {128, DType::kBF16, 12.0f}}) {
    constexpr int kLength = 1000;
    AttentionCase whole = make_case({kLength}, {kLength}, 8, 2, head_dim, 16);
    whole.kv_dtype = dtype;
    whole.sharpness = sharpness;
    const AttentionInputs whole_inputs(whole);
    const AttentionOutputs whole_outputs(whole_inputs);
    run(args(whole_inputs, whole_outputs));
    const std::vector<uint16_t> expected = whole_outputs.download_out();
    const size_t row = 8 * static_cast<size_t>(head_dim);
    // The harness makes the values of query row i from i: a chunk's queries must be put in place.
    for (const int chunk : {1, 37, 333, 999}) {
      const AttentionOutputs outputs(whole_inputs);
      PrefillArgs part = args(whole_inputs, outputs);
      DeviceArray<int32_t> cu(std::vector<int32_t>{0, chunk});
      part.q = static_cast<const uint16_t*>(part.q) + (kLength - chunk) * row;
      part.cu_seqlens_q = cu.data();
      part.num_tokens = chunk;
      part.lse = nullptr;
      run(part);
      const std::vector<uint16_t> out = outputs.download_out();
      EXPECT_TRUE(std::equal(out.begin(), out.begin() + static_cast<ptrdiff_t>(chunk * row),
                             expected.end() - static_cast<ptrdiff_t>(chunk * row)))
          << "head_dim " << head_dim << ", last " << chunk << " rows";
    }
    AttentionCase batch =
        make_case({kLength, 5, 640, 1, 4500}, {kLength, 900, 700, 4000, 4500}, 8, 2, head_dim, 16);
    batch.kv_dtype = dtype;
    batch.sharpness = sharpness;
    const AttentionInputs batch_inputs(batch);
    const AttentionOutputs batch_outputs(batch_inputs);
    run(args(batch_inputs, batch_outputs));
    const std::vector<uint16_t> out = batch_outputs.download_out();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin())) << head_dim;
  }
}

// The device hands out work in another order each time; nothing of it may show.
TEST_P(AttentionPrefill, RepeatsAreEqual) {
  const std::vector<int> lengths = {1, 0, 7, 128, 129, 2000, 511, 3};
  const AttentionInputs inputs(make_case(lengths, lengths, 8, 2, 128, 16));
  const AttentionOutputs outputs(inputs);
  PrefillArgs call = args(inputs, outputs);
  call.lse = nullptr;
  DeviceArray<uint8_t> workspace(prefill_workspace_bytes(call));
  workspace.fill_bytes(0xFF);
  std::vector<uint16_t> first;
  for (int repeat = 0; repeat < 200; ++repeat) {
    ASSERT_TRUE(plan_prefill(call, workspace.data(), nullptr).ok());
    ASSERT_TRUE(prefill_attention(call, workspace.data(), nullptr).ok());
    const std::vector<uint16_t> out = outputs.download_out();
    if (first.empty()) first = out;
    ASSERT_TRUE(out == first) << "repeat " << repeat;
  }
}

TEST_P(AttentionPrefill, GraphReplayWithOtherLengths) {
  const std::vector<int> longest(8, 600);
  AttentionInputs inputs(make_case(longest, std::vector<int>(8, 4000), 8, 2, 128, 16));
  AttentionOutputs outputs(inputs);
  DeviceArray<int32_t> cu_seqlens_q(9);
  PrefillArgs call = args(inputs, outputs);
  call.cu_seqlens_q = cu_seqlens_q.data();
  DeviceArray<uint8_t> workspace(prefill_workspace_bytes(call));
  const Stream stream;
  const Graph graph = Graph::capture(stream.get(), [&] {
    ASSERT_TRUE(plan_prefill(call, workspace.data(), stream.get()).ok());
    ASSERT_TRUE(prefill_attention(call, workspace.data(), stream.get()).ok());
  });
  std::mt19937_64 rng(5);
  for (int set = 0; set < 40; ++set) {
    std::vector<int> kv_lens;
    std::vector<int32_t> sums = {0};
    for (int s = 0; s < 8; ++s) {
      kv_lens.push_back(static_cast<int>(rng() % 4001) >> set % 12);
      sums.push_back(sums.back() + (set == 0 ? 1 : static_cast<int>(rng() % 601) >> set % 7));
    }
    inputs.set_lengths(kv_lens);
    cu_seqlens_q.upload(sums);
    outputs.poison();
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    graph.launch(stream.get());
    stream.synchronize();
    const std::vector<uint16_t> replayed = outputs.download_out();
    outputs.poison();
    run(call);
    ASSERT_TRUE(outputs.download_out() == replayed) << "set " << set;
    const auto written = static_cast<size_t>(sums.back()) * 8 * 128;
    if (written > 0) {
      EXPECT_NE(replayed[written - 1], 0xFFFF) << "set " << set;
    }
    if (written < replayed.size()) {
      EXPECT_EQ(replayed[written], 0xFFFF) << "set " << set;
    }
  }
  // Lengths that fill the batch can be judged.
  std::vector<int32_t> sums = {0};
  for (const int length : longest) sums.push_back(sums.back() + length);
  cu_seqlens_q.upload(sums);
  inputs.set_lengths({4000, 600, 1, 0, 700, 3999, 16, 2000});
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  graph.launch(stream.get());
  stream.synchronize();
  EXPECT_EQ(judge_attention(inputs, outputs), "");
}

// A19: a prompt's last row is what decode gives for it.
TEST_P(AttentionPrefill, LastRowsAreThoseOfDecode) {
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    constexpr int kCount = 300, kHeads = 4, kRow = kHeads * 128;
    std::vector<int> lengths(kCount);
    std::iota(lengths.begin(), lengths.end(), 1);
    AttentionCase shape = make_case(lengths, lengths, kHeads, 2, 128, 16);
    shape.kv_dtype = dtype;
    const AttentionInputs inputs(shape);
    const AttentionOutputs outputs(inputs);
    run(args(inputs, outputs));
    ASSERT_EQ(judge_attention(inputs, outputs), "");

    DecodeArgs decode = decode_args(inputs, outputs);
    const DeviceArray<uint16_t> last_q(size_t{kCount} * kRow), out(size_t{kCount} * kRow);
    std::vector<int32_t> ones_up(kCount + 1);
    std::iota(ones_up.begin(), ones_up.end(), 0);
    const DeviceArray<int32_t> cu_seqlens_q(ones_up);
    std::vector<uint16_t> want;
    const std::vector<uint16_t> all = outputs.download_out();
    size_t end = 0;
    for (int s = 0; s < kCount; ++s) {
      end += static_cast<size_t>(lengths[static_cast<size_t>(s)]);
      check_cuda(cudaMemcpy(last_q.data() + s * kRow,
                            static_cast<const uint16_t*>(decode.q) + (end - 1) * kRow, kRow * 2,
                            cudaMemcpyDefault),
                 "cudaMemcpy");
      const auto row = all.begin() + static_cast<ptrdiff_t>((end - 1) * kRow);
      want.insert(want.end(), row, row + kRow);
    }
    decode.q = last_q.data();
    decode.out = out.data();
    decode.lse = nullptr;
    decode.cu_seqlens_q = cu_seqlens_q.data();
    decode.num_tokens = kCount;
    decode.max_q_len = 1;
    const DeviceArray<uint8_t> workspace(decode_workspace_bytes(decode));
    ASSERT_TRUE(plan_decode(decode, workspace.data(), nullptr).ok());
    ASSERT_TRUE(decode_attention(decode, workspace.data(), nullptr).ok());
    const std::vector<uint16_t> got = out.download();
    for (size_t i = 0; i < got.size(); ++i) {
      const float expected = bf16_to_float(want[i]);
      ASSERT_NEAR(bf16_to_float(got[i]), expected, 0.01f * (std::abs(expected) + 0.3f))
          << i / kRow + 1 << " keys";
    }
  }
}

// A25: attention over [0, a) and [a, k), merged by LSE, is attention over [0, k).
TEST_P(AttentionPrefill, PartsMergeToTheWhole) {
  constexpr int kKeys = 1500, kQueries = 200, kHeads = 8, kKvHeads = 2;
  for (const int head_dim : {64, 128, 256}) {
    AttentionCase shape = make_case({kQueries}, {kKeys}, kHeads, kKvHeads, head_dim, 0);
    shape.window_right = -1;
    const AttentionInputs inputs(shape);
    const AttentionOutputs outputs(inputs);
    run(args(inputs, outputs));
    ASSERT_EQ(judge_attention(inputs, outputs), "");
    const std::vector<uint16_t> whole = outputs.download_out();
    const std::vector<float> whole_lse = outputs.download_lse();
    for (const int cut : {1, 128, 700, 1499}) {
      std::vector<uint16_t> out[2];
      std::vector<float> lse[2];
      for (const int part : {0, 1}) {
        PrefillArgs call = args(inputs, outputs);
        const int begin = part == 0 ? 0 : cut;
        const int count = part == 0 ? cut : kKeys - cut;
        const DeviceArray<int32_t> cu(std::vector<int32_t>{0, count});
        const int64_t offset = int64_t{begin} * kKvHeads * head_dim;
        call.k = static_cast<const uint16_t*>(call.k) + offset;
        call.v = static_cast<const uint16_t*>(call.v) + offset;
        call.cu_seqlens_k = cu.data();
        call.num_kv_tokens = count;
        run(call);
        out[part] = outputs.download_out();
        lse[part] = outputs.download_lse();
      }
      for (int token = 0; token < kQueries; ++token) {
        for (int head = 0; head < kHeads; ++head) {
          const auto row = static_cast<size_t>(head * kQueries + token);
          const float merged = std::log(std::exp(lse[0][row]) + std::exp(lse[1][row]));
          ASSERT_NEAR(merged, whole_lse[row], 1e-3f);
          const float weights[2] = {std::exp(lse[0][row] - merged), std::exp(lse[1][row] - merged)};
          for (int d = 0; d < head_dim; ++d) {
            const auto i = static_cast<size_t>((token * kHeads + head) * head_dim + d);
            const float sum =
                weights[0] * bf16_to_float(out[0][i]) + weights[1] * bf16_to_float(out[1][i]);
            ASSERT_NEAR(sum, bf16_to_float(whole[i]), 0.004f) << "cut at " << cut;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
