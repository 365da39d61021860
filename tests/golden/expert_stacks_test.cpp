// Llama 4's stacks of experts, plain and in E4M3, beside the same experts one by one: the same
// bits. What single experts compute is judged by quantized_test, what stacks hold by unit_quant.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "golden/made_folder.h"
#include "octavo/model.h"
#include "support/temp_path.h"

namespace octavo {
namespace {

using testing::golden_folder;
using testing::is_expert_stack;
using testing::logits_of;
using testing::owned;
using testing::split_stack;
using testing::write_folder;

// Llama 4's experts one by one are those of the stacks, which its goldens judge.
TEST(ExpertStacks, ExpertsOneByOneAreTheStacks) {
  const std::string golden = golden_folder("llama4_scout");
  const auto checkpoint = formats::HfCheckpoint::open(golden).value();
  std::vector<Tensor> tensors;
  size_t stacks = 0;
  for (const formats::TensorInfo& info : checkpoint->tensors()) {
    const Tensor tensor = checkpoint->tensor(info);
    if (!is_expert_stack(info)) {
      tensors.push_back(tensor);
      continue;
    }
    ++stacks;
    for (Tensor& expert : split_stack(tensor)) tensors.push_back(std::move(expert));
  }
  ASSERT_GT(stacks, 0u);
  const std::string folder = testing::temp_path("one_by_one");
  write_folder(folder, checkpoint->metadata().at("config"), tensors);
  for (const char* backend : {"ref", "cpu"}) {
    EXPECT_EQ(logits_of(folder, backend), logits_of(golden, backend)) << backend;
  }
  std::filesystem::remove_all(folder);
}

// The experts of a stack in E4M3, one by one and as one tensor of codes and one of scales.
void quantize_stack(const Tensor& stack, std::vector<Tensor>& one_by_one,
                    std::vector<Tensor>& stacked) {
  const int64_t in = stack.shape[1];
  const int64_t out = stack.shape[2];
  std::vector<uint8_t> codes(stack.count());
  std::vector<float> scales;
  int64_t first = 0;  // of all rows
  for (const Tensor& expert : split_stack(stack)) {
    std::vector<Tensor> plain;
    testing::quantize(expert, one_by_one, plain);
    const Tensor& matrix = one_by_one[one_by_one.size() - 2];
    const auto* row_scales = reinterpret_cast<const float*>(one_by_one.back().data);
    for (int64_t row = 0; row < matrix.shape[0]; ++row, ++first) {
      scales.push_back(row_scales[row]);
      for (int64_t i = 0; i < in; ++i) {
        codes[(first / out * in + i) * out + first % out] =
            static_cast<uint8_t>(matrix.data[row * in + i]);
      }
    }
  }
  const bool gate_up = stack.name.ends_with("gate_up_proj");
  const int64_t count = stack.shape[0];
  stacked.push_back(owned(stack.name, DType::kF8E4M3, stack.shape, std::move(codes)));
  stacked.push_back(owned(stack.name + "_scale", DType::kF32,
                          gate_up ? Shape{count, 1, out} : Shape{count, out, 1},
                          std::move(scales)));
}

constexpr const char* kChannel = R"({"quant_method":"compressed-tensors",
    "format":"float-quantized","config_groups":{"group_0":{"targets":["Linear"],
    "weights":{"num_bits":8,"type":"float","strategy":"channel"},
    "input_activations":{"num_bits":8,"type":"float","strategy":"token","dynamic":true}}}})";

class QuantizedStacks : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto checkpoint = formats::HfCheckpoint::open(golden_folder(GetParam())).value();
    config_ = checkpoint->metadata().at("config");
    size_t stacks = 0;
    for (const formats::TensorInfo& info : checkpoint->tensors()) {
      const Tensor tensor = checkpoint->tensor(info);
      if (is_expert_stack(info)) {
        ++stacks;
        quantize_stack(tensor, one_by_one_, stacked_);
      } else {
        one_by_one_.push_back(tensor);
        stacked_.push_back(tensor);
      }
    }
    ASSERT_GT(stacks, 0u);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A folder of these tensors whose experts are stored as `scheme` says.
  std::string write(const char* name, const char* scheme, const std::vector<Tensor>& tensors) {
    Json config = config_;
    config.as_object()["quantization_config"] = parse_json(scheme, "scheme").value();
    std::string folder = folder_ + "/" + name;
    write_folder(folder, config, tensors);
    return folder;
  }

  std::vector<Tensor> one_by_one_;
  std::vector<Tensor> stacked_;

 private:
  const std::string folder_ = testing::temp_path("stacks");
  Json config_;
};

TEST_P(QuantizedStacks, ComputeWhatSingleExpertsDo) {
  const std::string single = write("single", kChannel, one_by_one_);
  const std::string stacked = write("stacked", kChannel, stacked_);
  // The same activations, unless they are limited.
  const std::string wide =
      write("wide", R"({"quant_method":"fbgemm_fp8","activation_scale_ub":1e6})", stacked_);
  const std::string narrow =
      write("narrow", R"({"quant_method":"fbgemm_fp8","activation_scale_ub":0.5})", stacked_);
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    const auto expected = logits_of(single, backend);
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(logits_of(stacked, backend), expected);
    EXPECT_EQ(logits_of(wide, backend), expected);
    EXPECT_NE(logits_of(narrow, backend), expected);
  }
}

TEST_P(QuantizedStacks, MemoryIsMeasuredAsItIsLoaded) {
  const std::string stacked = write("stacked", kChannel, stacked_);
  const std::string single = write("single", kChannel, one_by_one_);
  const auto measured = measure_memory(stacked, {}).value().weight_bytes;
  EXPECT_EQ(measured, measure_memory(single, {}).value().weight_bytes);
  EXPECT_EQ(measured, Model::load(stacked, {}).value()->info().weight_bytes);
}

TEST_P(QuantizedStacks, AreRefusedByNameInOtherSchemes) {
  for (const char* scheme :
       {R"({"quant_method":"fp8"})", R"({"quant_method":"awq","bits":4,"group_size":32})"}) {
    const auto model = Model::load(write("other", scheme, stacked_), {});
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.status().message().find("experts.gate_up_proj' is a stack of float8_e4m3fn"),
              std::string::npos)
        << model.status().message();
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedStacks,
                         ::testing::Values("llama4_scout", "llama4_maverick", "llama4_conditional"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace octavo
