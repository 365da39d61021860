// Quantised folders of every family beside plain ones with the values that they decode to: the same
// bits. What the values are is judged by unit_quant, what they compute by checkpoint_test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/format.h"
#include "formats/hf_checkpoint.h"
#include "golden/golden_json.h"
#include "golden/made_folder.h"
#include "octavo/model.h"
#include "support/temp_path.h"
#include "unit/quant/folder_source.h"

namespace octavo {
namespace {

using testing::golden_folder;
using testing::is_expert_stack;
using testing::is_linear;
using testing::logits_of;
using testing::owned;
using testing::quantize;
using testing::split_stack;
using testing::write_folder;

constexpr const char* kScheme = R"({"quant_method":"compressed-tensors","format":"float-quantized",
    "kv_cache_scheme":{"num_bits":8},"config_groups":{"group_0":{"targets":["Linear"],
    "weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})";

// Fused projections, experts with their router, rows that are reordered, a nested configuration.
class QuantizedFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(QuantizedFamilies, ComputeWhatTheirDecodedValuesDo) {
  const auto checkpoint = formats::HfCheckpoint::open(golden_folder(GetParam())).value();
  std::vector<Tensor> quantized;
  std::vector<Tensor> plain;
  for (const formats::TensorInfo& info : checkpoint->tensors()) {
    const Tensor tensor = checkpoint->tensor(info);
    if (is_expert_stack(info)) {
      for (const Tensor& expert : split_stack(tensor)) quantize(expert, quantized, plain);
    } else if (is_linear(info) && info.name.find("vision") == std::string::npos) {
      quantize(tensor, quantized, plain);
    } else {
      quantized.push_back(tensor);
      plain.push_back(tensor);
    }
  }
  ASSERT_GT(quantized.size(), plain.size());
  // Scales of a KV cache, which have no effect.
  const bool nested = checkpoint->find("model.norm.weight") == nullptr;
  const std::string prefix = nested ? "language_model." : "";
  quantized.push_back(
      owned<float>(prefix + "model.layers.0.self_attn.k_scale", DType::kF32, {1}, {0.5f}));
  Json config = checkpoint->metadata().at("config");
  const std::string folder = testing::temp_path("families");
  write_folder(folder + "/plain", config, plain);
  config.as_object()["quantization_config"] = parse_json(kScheme, "scheme").value();
  write_folder(folder + "/quantized", config, quantized);
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    const auto expected = logits_of(folder + "/plain", backend);
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(logits_of(folder + "/quantized", backend), expected);
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedFamilies,
                         ::testing::Values("phi3", "qwen3_moe", "mixtral", "llama4_scout",
                                           "llama4_conditional", "gemma3", "olmo2", "qwen2"),
                         [](const auto& row) { return std::string(row.param); });

// The decoded weights alone, to float32's accuracy: without rounded inputs nothing moves by tenths.
TEST(QuantizedFolders, LogitsWithoutRoundedInputs) {
  const std::string source = golden_folder("llama_fp8_channel");
  const testing::FloatTensors golden(source + "/golden.safetensors");
  const std::vector<float> expected = golden.at("weight_only.all_logits");
  const Json facts =
      parse_json(formats::read_text_file(source + "/golden.json").value(), source).value();
  const auto prompt = facts.at("all_positions_prompt").as_int64();
  const auto ids = testing::ids_of(facts.at("prompts").at(prompt).at("ids"));
  const std::string folder = testing::temp_path("weight_only");
  std::filesystem::create_directories(folder);
  std::filesystem::copy(source + "/model.safetensors", folder + "/model.safetensors");
  const std::string path = source + "/config.json";
  Json config = parse_json(formats::read_text_file(path).value(), path).value();
  JsonObject& groups = config.at("quantization_config").at("config_groups").as_object();
  groups.at("group_0").as_object()["input_activations"] = nullptr;
  std::ofstream(folder + "/config.json") << dump_json(config);
  for (const char* backend : {"ref", "cpu"}) {
    const auto logits = logits_of(folder, backend, ids);
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-3);
  }
  std::filesystem::remove_all(folder);
}

// Codes that are no number end as the error that the logits hold NaN, with the file's name.
TEST(QuantizedFolders, CodesThatAreNoNumberAreFound) {
  const auto checkpoint = formats::HfCheckpoint::open(golden_folder("llama_fp8_channel")).value();
  for (const uint8_t code : {0x7F, 0xFF}) {
    std::vector<Tensor> tensors;
    bool damaged = false;
    for (const formats::TensorInfo& info : checkpoint->tensors()) {
      const Tensor tensor = checkpoint->tensor(info);
      tensors.push_back(tensor);
      if (info.dtype != DType::kF8E4M3 || damaged) continue;
      const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.data);
      std::vector<uint8_t> codes(bytes, bytes + tensor.count());
      codes[codes.size() / 2] = code;
      tensors.back() = owned(info.name, info.dtype, info.shape, std::move(codes));
      damaged = true;
    }
    ASSERT_TRUE(damaged);
    const std::string folder = testing::temp_path("nan");
    write_folder(folder, checkpoint->metadata().at("config"), tensors);
    const auto model = Model::load(folder, {});
    ASSERT_TRUE(model.ok()) << model.status().message();
    Request request;
    request.prompt_token_ids = {5, 17, 3};
    request.sampling.max_tokens = 2;
    const auto generated = (*model)->generate(request, nullptr);
    std::filesystem::remove_all(folder);
    ASSERT_FALSE(generated.ok());
    const std::string& message = generated.status().message();
    EXPECT_TRUE(message.starts_with(folder + ": ")) << message;
    EXPECT_NE(message.find("logits hold NaN"), std::string::npos) << message;
  }
}

TEST(QuantizedFolders, MemoryIsMeasuredAsItIsLoaded) {
  for (const std::string& name : testing::golden_names(true)) {
    SCOPED_TRACE(name);
    const std::string folder = golden_folder(name);
    const auto model = Model::load(folder, {});
    ASSERT_TRUE(model.ok()) << model.status().message();
    const ModelInfo info = (*model)->info();
    EXPECT_EQ(measure_memory(folder, {}).value().weight_bytes, info.weight_bytes);
    // Neither more than the file, where E4M3 has scales for each row, nor decoded.
    const auto file = std::filesystem::file_size(folder + "/model.safetensors");
    EXPECT_LT(info.weight_bytes, static_cast<int64_t>(file * 5 / 4));
  }
}

// A folder with an edit of its configuration and one more tensor; its error, "" where it loads.
std::string error_of(const char* name, const std::function<void(JsonObject&)>& edit,
                     const char* extra) {
  const auto checkpoint = formats::HfCheckpoint::open(golden_folder(name)).value();
  std::vector<Tensor> tensors;
  for (const formats::TensorInfo& info : checkpoint->tensors()) {
    tensors.push_back(checkpoint->tensor(info));
  }
  if (*extra != '\0') tensors.push_back(owned<float>(extra, DType::kF32, {1}, {1}));
  Json config = checkpoint->metadata().at("config");
  edit(config.as_object());
  const std::string folder = testing::temp_path("edited");
  write_folder(folder, config, tensors);
  const auto model = Model::load(folder, {});
  std::filesystem::remove_all(folder);
  return model.ok() ? "" : model.status().message();
}

TEST(QuantizedFolders, WhatIsLeftOverIsAnError) {
  const auto nothing = [](JsonObject&) {};
  EXPECT_EQ(error_of("llama_awq", nothing, ""), "");
  EXPECT_EQ(error_of("llama_fp8_block", nothing, "model.layers.0.self_attn.v_scale"), "");
  for (const char* name : {"llama_awq", "llama_fp8_channel"}) {
    const char* extra = "model.layers.0.self_attn.q_proj.input_scale";
    EXPECT_NE(error_of(name, nothing, extra).find(extra), std::string::npos) << name;
  }
}

TEST(QuantizedFolders, ConfigurationsThatDoNotFitTheFile) {
  const auto says = [](const char* name, const std::function<void(JsonObject&)>& edit,
                       const char* text) {
    const std::string error = error_of(name, edit, "");
    EXPECT_NE(error.find(text), std::string::npos) << name << ": " << error;
  };
  const auto set = [](const char* key, const Json& value) {
    return [=](JsonObject& config) { config["quantization_config"].as_object()[key] = value; };
  };
  says(
      "llama_awq", [](JsonObject& config) { config.erase("quantization_config"); },
      "o_proj.weight' is missing");
  says("llama_awq", set("group_size", 64), "o_proj.qzeros' has shape");
  says("llama_awq", set("bits", 8), "quantization_config: 'bits' is 8");
  says("llama_awq", set("modules_to_not_convert", JsonArray{"self_attn"}),
       "o_proj.weight' is missing");
  says("llama_gptq", set("checkpoint_format", "gptq_v2"), "'checkpoint_format' may be wrong");
  says("llama_gptq", set("group_size", 80), "are not whole groups of 80");
  says("llama_fp8_block", set("weight_block_size", JsonArray{64, 128}),
       "o_proj.weight_scale_inv' has shape");
  says("llama_fp8_tensor", set("activation_scheme", "dynamic"), "input_scale");
  says("llama_fp8_channel", set("quant_method", "fp8"), "o_proj.weight_scale' has shape");
}

}  // namespace
}  // namespace octavo
