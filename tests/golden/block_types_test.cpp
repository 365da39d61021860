// GGUF models of NVFP4, Q1_0 and Q2_0 blocks beside models of the float32 values that these mean:
// the same bits. NVFP4 with the scales that llama.cpp's converter writes beside matrices and stacks
// of experts. What the blocks mean is judged by unit_ops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/format.h"
#include "base/rng.h"
#include "formats/checkpoint.h"
#include "formats/gguf_writer.h"
#include "golden/made_folder.h"
#include "octavo/model.h"
#include "ops/decode_row.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo {
namespace {

using testing::logits_of;
using testing::owned;

constexpr int64_t kExperts = 4;

struct Case {
  const char* name;
  DType dtype;
  bool scaled = false;
  bool experts = false;
};
constexpr Case kCases[] = {{"nvfp4", DType::kNVFP4},
                           {"nvfp4_scaled", DType::kNVFP4, true},
                           {"nvfp4_experts", DType::kNVFP4, true, true},
                           {"q1_0", DType::kQ1_0},
                           {"q1_0_experts", DType::kQ1_0, false, true},
                           {"q2_0", DType::kQ2_0},
                           {"q2_0_experts", DType::kQ2_0, false, true}};

testing::TinyLlama spec_of(const Case& c) {
  testing::TinyLlama spec;
  spec.hidden_size = 128;
  spec.intermediate_size = 256;
  spec.head_dim = 32;
  spec.dtype = c.dtype;
  spec.tied = false;
  if (!c.experts) return spec;
  spec.edit_metadata = [](JsonObject& metadata) {
    metadata["llama.expert_count"] = kExperts;
    metadata["llama.expert_used_count"] = 2;
  };
  spec.edit_tensor = [](std::string& name, DType&, Shape& shape) {
    for (const char* projection : {"ffn_gate.", "ffn_up.", "ffn_down."}) {
      const size_t at = name.find(projection);
      if (at == std::string::npos) continue;
      name.insert(at + std::strlen(projection) - 1, "_exps");
      shape.insert(shape.begin(), kExperts);
    }
    return true;
  };
  return spec;
}

void write_gguf(const std::string& path, const Json& metadata, const std::vector<Tensor>& tensors) {
  formats::GgufWriter writer;
  for (const auto& item : metadata.as_object()) {
    const Json& value = item.value();
    const auto kind = value.is_string()   ? formats::GgufKind::kString
                      : value.is_double() ? formats::GgufKind::kF32
                                          : formats::GgufKind::kU32;
    ASSERT_TRUE(writer.add_metadata({item.key().data(), item.key().size()}, {kind}, value).ok());
  }
  for (const Tensor& t : tensors) ASSERT_TRUE(writer.add_tensor(t.name, t.dtype, t.shape).ok());
  ASSERT_TRUE(writer.open(path).ok());
  for (const Tensor& t : tensors) {
    ASSERT_TRUE(writer.write({t.data, static_cast<size_t>(t.size_bytes())}).ok());
  }
  ASSERT_TRUE(writer.close().ok());
}

// The tensor as float32, each of `scales.size()` equal parts times its scale.
Tensor decoded(const Tensor& tensor, const std::vector<float>& scales) {
  std::vector<float> values(tensor.count());
  ops::decode_row_fn(tensor.dtype)(tensor.data, values.data(), tensor.count());
  const size_t part = values.size() / scales.size();
  for (size_t i = 0; i < values.size(); ++i) values[i] *= scales[i / part];
  return owned(tensor.name, DType::kF32, tensor.shape, std::move(values));
}

class BlockTypes : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    const std::string source = folder_ + "/source.gguf";
    testing::write_tiny_llama(source, spec_of(GetParam()));
    const auto checkpoint = formats::open_checkpoint(source).value();
    metadata_ = checkpoint->metadata();
    Rng rng(5);
    for (const formats::TensorInfo& info : checkpoint->tensors()) {
      const Tensor tensor = checkpoint->tensor(info);
      add(tensor, rng);
      if (!GetParam().experts || info.name.find("ffn_gate_exps") == std::string::npos) continue;
      std::vector<float> router(kExperts * 128);
      for (float& value : router) value = static_cast<float>(rng.next_double() - 0.5);
      const std::string name = info.name.substr(0, info.name.find("_exps")) + "_inp.weight";
      blocks_.push_back(owned(name, DType::kF32, {kExperts, 128}, router));
      floats_.push_back(blocks_.back());
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const char* name, const std::vector<Tensor>& tensors) const {
    std::string path = folder_ + "/" + name + ".gguf";
    write_gguf(path, metadata_, tensors);
    return path;
  }
  // The error of a model that misses or has damaged what `edit` changes.
  std::string error_after(const std::function<void(std::vector<Tensor>&)>& edit) const {
    std::vector<Tensor> tensors = blocks_;
    edit(tensors);
    const auto model = Model::load(write("damaged", tensors), {});
    return model.ok() ? "" : model.status().message();
  }

  std::vector<Tensor> blocks_;
  std::vector<Tensor> floats_;

 private:
  void add(const Tensor& tensor, Rng& rng) {
    blocks_.push_back(tensor);
    if (tensor.dtype != GetParam().dtype) return floats_.push_back(tensor);
    std::vector<float> scales = {1};
    if (GetParam().scaled && tensor.name != "token_embd.weight") {
      scales.resize(tensor.shape.size() == 3 ? kExperts : 1);
      for (float& scale : scales) scale = static_cast<float>(0.5 + rng.next_double());
      const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
      const auto count = static_cast<int64_t>(scales.size());
      blocks_.push_back(owned(stem + ".scale", DType::kF32, {count}, scales));
      // What activations in 4 bits would be scaled by has no effect.
      blocks_.push_back(owned(stem + ".input_scale", DType::kF32, {count},
                              std::vector<float>(scales.size(), 100)));
    }
    floats_.push_back(decoded(tensor, scales));
  }

  const std::string folder_ = testing::temp_path("blocks");
  Json metadata_;
};

TEST_P(BlockTypes, ComputeWhatTheirDecodedValuesDo) {
  const std::string blocks = write("blocks", blocks_);
  const std::string floats = write("floats", floats_);
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    const auto expected = logits_of(floats, backend);
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(logits_of(blocks, backend), expected);
  }
}

TEST_P(BlockTypes, RunByDefaultAndAreMeasuredAsTheyAreLoaded) {
  const std::string blocks = write("blocks", blocks_);
  const auto model = Model::load(blocks, {});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto logits = (*model)->logits(std::vector<TokenId>{5, 17, 3}, LogitsPositions::kLast);
  for (const float value : logits.value().values) ASSERT_TRUE(std::isfinite(value));
  const int64_t bytes = (*model)->info().weight_bytes;
  EXPECT_EQ(measure_memory(blocks, {}).value().weight_bytes, bytes);
  EXPECT_LT(bytes, static_cast<int64_t>(std::filesystem::file_size(blocks)) * 5 / 4);
}

TEST_P(BlockTypes, ScalesThatAreWrongAreNamed) {
  if (!GetParam().scaled) {
    // A scale that the type does not have.
    if (GetParam().dtype == DType::kNVFP4) GTEST_SKIP() << "has no scales";
    const std::string error = error_after([](std::vector<Tensor>& tensors) {
      tensors.push_back(owned<float>("blk.0.attn_q.scale", DType::kF32, {1}, {2}));
    });
    EXPECT_NE(error.find("'blk.0.attn_q.scale'"), std::string::npos) << error;
    return;
  }
  const auto replace_first = [](const char* suffix, const std::vector<float>& values) {
    return [=](std::vector<Tensor>& tensors) {
      for (Tensor& tensor : tensors) {
        if (!tensor.name.ends_with(suffix)) continue;
        tensor = owned(tensor.name, DType::kF32, {static_cast<int64_t>(values.size())}, values);
        return;
      }
    };
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& values : std::vector<std::vector<float>>{{kNan}, {0}, {-1}, {1, 2, 3}}) {
    const std::string error = error_after(replace_first("attn_q.scale", values));
    EXPECT_NE(error.find("'blk.0.attn_q.scale'"), std::string::npos) << values[0] << ": " << error;
  }
  if (!GetParam().experts) return;
  for (const auto& values : std::vector<std::vector<float>>{{1, 2, kNan, 4}, {1}, {1, 2, 3}}) {
    const std::string error = error_after(replace_first("ffn_up_exps.scale", values));
    EXPECT_NE(error.find("'blk.0.ffn_up_exps.scale'"), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockTypes, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace octavo
