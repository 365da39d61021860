// The C interface against the fp32 reference: contiguous and paged, prompts and single rows; and
// what it refuses, which needs no GPU.
#include "octavo/flash_attn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "backends/cuda/graph.h"
#include "backends/cuda/stream.h"
#include "tests/gpu/attention_args.h"

namespace octavo::backends::cuda {
namespace {

octavo_flash_attn_args c_args(const AttentionInputs& inputs, const AttentionOutputs& outputs) {
  const ReferenceAttentionArgs from = inputs.args();
  octavo_flash_attn_args args = {};
  args.struct_size = sizeof(args);
  args.out = outputs.out();
  args.lse = outputs.lse();
  args.q = from.q;
  args.k = from.k;
  args.v = from.v;
  args.kv_dtype =
      from.kv_dtype == DType::kF8E4M3 ? OCTAVO_FLASH_ATTN_F8E4M3 : OCTAVO_FLASH_ATTN_BF16;
  args.k_scale = from.k_scale;
  args.v_scale = from.v_scale;
  args.batch_size = from.num_seqs;
  args.num_heads = from.num_heads;
  args.num_kv_heads = from.num_kv_heads;
  args.head_dim = from.head_dim;
  args.total_q = from.num_tokens;
  args.max_seqlen_q = *std::max_element(inputs.shape().q_lens.begin(), inputs.shape().q_lens.end());
  args.cu_seqlens_q = from.cu_seqlens_q;
  args.cu_seqlens_k = from.cu_seqlens_k;
  args.total_k = inputs.num_kv_tokens();
  args.block_table = from.block_table;
  args.block_table_stride = from.block_table_stride;
  args.seqused_k = from.seq_lens;
  args.num_blocks = inputs.num_blocks();
  args.block_size = from.block_size;
  args.softmax_scale = from.scale;
  args.softcap = from.softcap;
  args.causal = from.window_right == 0 ? 1 : 0;
  args.window_left = from.window_left;
  args.chunk = from.chunk;
  args.sinks = from.sinks;
  return args;
}

void expect_right(const AttentionCase& shape) {
  SCOPED_TRACE(shape.describe());
  const AttentionInputs inputs(shape);
  AttentionOutputs outputs(inputs);
  const octavo_flash_attn_args args = c_args(inputs, outputs);
  size_t bytes = 0;
  ASSERT_EQ(octavo_flash_attn_workspace_bytes(&args, &bytes), OCTAVO_FLASH_ATTN_OK)
      << octavo_flash_attn_error();
  DeviceArray<uint8_t> workspace(bytes);
  workspace.fill_bytes(0xFF);
  for (int call = 0; call < 2; ++call) {
    outputs.poison();
    ASSERT_EQ(octavo_flash_attn_varlen(&args, workspace.data(), bytes, nullptr),
              OCTAVO_FLASH_ATTN_OK)
        << octavo_flash_attn_error();
    check_cuda(cudaDeviceSynchronize(), "octavo_flash_attn_varlen");
    EXPECT_EQ(judge_attention(inputs, outputs), "");
  }
}

TEST(FlashAttn, RightForPromptsAndSingleRows) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  for (const int block_size : {0, 16, 64}) {
    for (const bool prompts : {true, false}) {
      AttentionCase shape;
      shape.q_lens = prompts ? std::vector<int>{300, 1, 0, 64} : std::vector<int>{1, 3, 0, 1};
      shape.kv_lens = {300, 500, 40, 2000};
      if (block_size == 0 && !prompts) continue;
      shape.block_size = block_size;
      shape.window_right = 0;
      expect_right(shape);
      shape.sinks = true;
      shape.softcap = 20.0f;
      shape.window_left = 100;
      expect_right(shape);
    }
  }
  AttentionCase fp8;
  fp8.q_lens = {1, 2};
  fp8.kv_lens = {1000, 77};
  fp8.kv_dtype = DType::kF8E4M3;
  fp8.scales = true;
  expect_right(fp8);
}

TEST(FlashAttn, PromptsChunksAndDecodeRowsInOneCall) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  for (const auto dtype : {DType::kBF16, DType::kF8E4M3}) {
    for (const int block_size : {16, 128, 0}) {
      AttentionCase shape;
      shape.q_lens = {700, 1, 1, 130, 0, 1, 3, 1};
      shape.kv_lens = {700, 5000, 1, 1130, 9, 0, 333, 64};
      shape.kv_dtype = dtype;
      shape.scales = dtype == DType::kF8E4M3;
      shape.block_size = block_size;
      expect_right(shape);
    }
  }
}

// A call's kernels may start while the kernel before it ends; before it a graph may have anything.
TEST(FlashAttn, CapturedAfterACopyAndBeforeAnother) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  for (const int rows : {1, 200}) {
    AttentionCase shape;
    shape.q_lens = {rows, rows};
    shape.kv_lens = {1000, 333};
    const AttentionInputs inputs(shape);
    AttentionOutputs outputs(inputs);
    const octavo_flash_attn_args args = c_args(inputs, outputs);
    size_t bytes = 0;
    ASSERT_EQ(octavo_flash_attn_workspace_bytes(&args, &bytes), OCTAVO_FLASH_ATTN_OK);
    DeviceArray<uint8_t> workspace(bytes);
    const Stream stream;
    const Graph graph = Graph::capture(stream.get(), [&] {
      for (int call = 0; call < 3; ++call) {
        check_cuda(cudaMemsetAsync(workspace.data(), 0xFF, bytes, stream.get()), "memset");
        EXPECT_EQ(octavo_flash_attn_varlen(&args, workspace.data(), bytes, stream.get()),
                  OCTAVO_FLASH_ATTN_OK);
        EXPECT_EQ(octavo_flash_attn_varlen(&args, workspace.data(), bytes, stream.get()),
                  OCTAVO_FLASH_ATTN_OK);
      }
    });
    for (int replay = 0; replay < 2; ++replay) {
      outputs.poison();
      graph.launch(stream.get());
      stream.synchronize();
      EXPECT_EQ(judge_attention(inputs, outputs), "");
    }
  }
}

// As the layers of a model: one list of work for all calls.
TEST(FlashAttn, PlannedOnce) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  for (const int rows : {1, 200}) {
    AttentionCase shape;
    shape.q_lens = {rows, rows};
    shape.kv_lens = {5000, 333};
    const AttentionInputs inputs(shape);
    AttentionOutputs outputs(inputs);
    octavo_flash_attn_args args = c_args(inputs, outputs);
    size_t bytes = 0;
    ASSERT_EQ(octavo_flash_attn_workspace_bytes(&args, &bytes), OCTAVO_FLASH_ATTN_OK);
    DeviceArray<uint8_t> workspace(bytes);
    workspace.fill_bytes(0xFF);
    ASSERT_EQ(octavo_flash_attn_plan(&args, workspace.data(), bytes, nullptr),
              OCTAVO_FLASH_ATTN_OK);
    args.planned = 1;
    for (int call = 0; call < 3; ++call) {
      outputs.poison();
      ASSERT_EQ(octavo_flash_attn_varlen(&args, workspace.data(), bytes, nullptr),
                OCTAVO_FLASH_ATTN_OK);
      check_cuda(cudaDeviceSynchronize(), "octavo_flash_attn_varlen");
      EXPECT_EQ(judge_attention(inputs, outputs), "");
    }
    EXPECT_EQ(octavo_flash_attn_varlen(&args, workspace.data(), bytes - 1, nullptr),
              OCTAVO_FLASH_ATTN_INVALID);
    EXPECT_EQ(octavo_flash_attn_plan(&args, nullptr, bytes, nullptr), OCTAVO_FLASH_ATTN_INVALID);
  }
}

TEST(FlashAttn, RefusesWhatItCannotDo) {
  const auto refused = [](void (*change)(octavo_flash_attn_args&),
                          octavo_flash_attn_status expected, const std::string& part) {
    static int32_t anything = 0;
    octavo_flash_attn_args args = {};
    args.struct_size = sizeof(args);
    args.out = args.lse = reinterpret_cast<float*>(&anything);
    args.q = args.k = args.v = &anything;
    args.cu_seqlens_q = args.cu_seqlens_k = &anything;
    args.batch_size = 1;
    args.num_heads = args.num_kv_heads = 8;
    args.head_dim = 128;
    args.total_q = args.max_seqlen_q = 100;
    args.total_k = 100;
    args.window_left = -1;
    change(args);
    size_t bytes = 0;
    EXPECT_EQ(octavo_flash_attn_workspace_bytes(&args, &bytes), expected);
    if (expected != OCTAVO_FLASH_ATTN_OK) {
      EXPECT_NE(std::string(octavo_flash_attn_error()).find(part), std::string::npos)
          << octavo_flash_attn_error();
    }
  };
  using Args = octavo_flash_attn_args;
  refused([](Args&) {}, OCTAVO_FLASH_ATTN_OK, "");
  refused([](Args& a) { a.struct_size = 8; }, OCTAVO_FLASH_ATTN_INVALID, "struct_size is 8");
  refused([](Args& a) { a.batch_size = -1; }, OCTAVO_FLASH_ATTN_INVALID, "batch_size is -1");
  refused([](Args& a) { a.num_kv_heads = 3; }, OCTAVO_FLASH_ATTN_INVALID, "multiple");
  refused([](Args& a) { a.q = nullptr; }, OCTAVO_FLASH_ATTN_INVALID, "q is null");
  refused([](Args& a) { a.cu_seqlens_k = nullptr; }, OCTAVO_FLASH_ATTN_INVALID, "cu_seqlens_k");
  refused([](Args& a) { a.block_table = a.cu_seqlens_q; }, OCTAVO_FLASH_ATTN_INVALID, "seqused_k");
  refused([](Args& a) { a.kv_dtype = OCTAVO_FLASH_ATTN_F8E4M3; }, OCTAVO_FLASH_ATTN_OK, "");
  refused([](Args& a) { a.kv_dtype = static_cast<octavo_flash_attn_dtype>(7); },
          OCTAVO_FLASH_ATTN_INVALID, "kv_dtype is 7");
  refused([](Args& a) { a.head_dim = 96; }, OCTAVO_FLASH_ATTN_UNSUPPORTED, "96");
}

}  // namespace
}  // namespace octavo::backends::cuda
