// What a config.json may say, key by key, and which tensors may be left over: on copies of the
// small checkpoints that are changed in one place.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "formats/hf_checkpoint.h"
#include "formats/safetensors_writer.h"
#include "model/config.h"
#include "octavo/model.h"
#include "support/temp_path.h"

namespace octavo::model {
namespace {

const std::string kGoldens = OCTAVO_TEST_DATA "/goldens/";

// A copy of a checkpoint, gone with the object.
class Copy {
 public:
  explicit Copy(const std::string& name) : path_(testing::temp_path(name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::copy(kGoldens + name, path_);
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
  }
  ~Copy() { std::filesystem::remove_all(path_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  // Replaces a key of config.json, below "text_config" where there is one; null removes it.
  Copy& set(const std::string& key, const Json& value) {
    const std::string file = path_ + "/config.json";
    Json config = parse_json(formats::read_text_file(file).value(), file).value();
    JsonObject& top = config.as_object();
    JsonObject& keys = top.contains("text_config") ? top["text_config"].as_object() : top;
    keys.erase(key);
    if (!value.is_null()) keys[key] = value;
    std::ofstream(file) << dump_json(config);
    return *this;
  }

  // Adds a tensor of one value to the weights.
  Copy& add_tensor(const std::string& name) {
    const std::string file = path_ + "/model.safetensors";
    std::vector<Tensor> tensors;
    const auto checkpoint = formats::open_checkpoint(path_).value();
    for (const formats::TensorInfo& info : checkpoint->tensors()) {
      tensors.push_back(checkpoint->tensor(info));
    }
    static const float kValue = 1;
    tensors.push_back(
        {name, DType::kF32, {1}, reinterpret_cast<const std::byte*>(&kValue), nullptr});
    const Status written = formats::write_safetensors(file, tensors);
    EXPECT_TRUE(written.ok()) << written.message();
    return *this;
  }

  Result<ModelConfig> config() const {
    return read_model_config(*formats::open_checkpoint(path_).value());
  }
  Status load() const { return Model::load(path_, {}).status(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void expect_refused(const Copy& copy, std::initializer_list<std::string_view> parts) {
  const auto config = copy.config();
  ASSERT_FALSE(config.ok()) << "accepted; expected: " << *parts.begin();
  const std::string& message = config.status().message();
  EXPECT_NE(message.find(copy.path() + "/config.json"), std::string::npos) << message;
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
  }
}

TEST(HfConfig, KeysOfOtherArchitecturesAreRefusedByName) {
  const std::pair<const char*, Json> kKeys[] = {{"attn_logit_softcapping", 50.0},
                                                {"final_logit_softcapping", 30.0},
                                                {"logit_scale", 0.25},
                                                {"residual_multiplier", 0.22},
                                                {"sliding_window", 8},
                                                {"num_local_experts", 8},
                                                {"attention_chunk_size", 8192},
                                                {"clip_qkv", 8.0},
                                                {"alibi", true},
                                                {"rope_interleaved", true},
                                                {"no_rope_layers", JsonArray{1, 0}},
                                                {"use_qk_norm", true}};
  for (const auto& [key, value] : kKeys) {
    expect_refused(Copy("llama3_gqa").set(key, value), {std::string("'") + key + "'"});
  }
}

TEST(HfConfig, NeutralValuesOfTheSameKeysAreAccepted) {
  for (const auto& [key, value] : {std::pair<const char*, Json>{"logit_scale", 1.0},
                                   {"attn_logit_softcapping", nullptr},
                                   {"rope_interleaved", false},
                                   {"clip_qkv", nullptr},
                                   {"sliding_window", nullptr},
                                   {"no_rope_layers", JsonArray{}}}) {
    const auto config = Copy("llama3_gqa").set(key, value).config();
    EXPECT_TRUE(config.ok()) << config.status().message();
  }
}

TEST(HfConfig, NonsenseIsRefusedByName) {
  expect_refused(Copy("llama3_gqa").set("hidden_act", "relu"), {"hidden_act", "relu"});
  expect_refused(Copy("gemma2").set("hidden_activation", "gelu"), {"hidden_activation"});
  expect_refused(Copy("gemma3").set("sliding_window", nullptr), {"sliding_window"});
  expect_refused(Copy("gemma3").set("sliding_window_pattern", 0), {"sliding_window_pattern"});
  expect_refused(Copy("gemma3").set("query_pre_attn_scalar", -1.0), {"query_pre_attn_scalar"});
  expect_refused(Copy("mistral_window").set("sliding_window", -4), {"sliding_window"});
  expect_refused(Copy("mistral_window").set("sliding_window", "4"), {"sliding_window"});
  expect_refused(Copy("qwen2").set("layer_types", JsonArray{"full_attention"}),
                 {"layer_types", "1", "2"});
  expect_refused(Copy("qwen2").set("layer_types", JsonArray{"full_attention", "linear_attention"}),
                 {"layer_types", "linear_attention"});
  expect_refused(Copy("qwen2").set("layer_types", JsonArray{"full_attention", "sliding_attention"}),
                 {"layer_types", "sliding_attention"});
  expect_refused(Copy("mixtral").set("num_experts_per_tok", 5), {"num_experts_per_tok", "1..4"});
  expect_refused(Copy("mixtral").set("num_local_experts", 1 << 30), {"num_local_experts"});
  expect_refused(Copy("qwen3_moe").set("moe_intermediate_size", 0), {"moe_intermediate_size"});
  expect_refused(Copy("qwen3_moe").set("decoder_sparse_step", 0), {"decoder_sparse_step"});
  expect_refused(Copy("llama4_scout").set("no_rope_layers", JsonArray{1, 1}), {"no_rope_layers"});
  expect_refused(Copy("llama4_scout").set("moe_layers", JsonArray{7}), {"moe_layers", "7"});
  expect_refused(Copy("llama4_scout").set("floor_scale", 0.0), {"floor_scale"});
  expect_refused(Copy("llama4_scout").set("attention_chunk_size", 0), {"attention_chunk_size"});
  expect_refused(Copy("llama4_conditional").set("num_local_experts", 0),
                 {"text_config", "num_local_experts"});
}

TEST(HfConfig, RotationsAreCheckedByKey) {
  const auto rope = [](const char* name, const JsonObject& object) {
    return Copy(name).set("rope_scaling", object).config();
  };
  const auto refused = [&](const char* name, const JsonObject& object, const char* part) {
    const auto config = rope(name, object);
    ASSERT_FALSE(config.ok()) << part;
    EXPECT_NE(config.status().message().find(part), std::string::npos) << config.status().message();
  };
  refused("llama3_gqa", {{"type", "spiral"}}, "spiral");
  refused("llama3_gqa", {{"type", "linear"}}, "factor");
  refused("llama3_gqa", {{"type", "linear"}, {"factor", -1}}, "factor");
  refused("llama3_gqa", {{"type", "linear"}, {"factor", 2}, {"twist", 1}}, "twist");
  refused("llama3_gqa", {{"type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 0.5}},
          "partial_rotary_factor");
  refused("llama3_gqa",
          {{"type", "dynamic"}, {"factor", 2}, {"original_max_position_embeddings", 64}},
          "original_max_position_embeddings");
  refused("phi3", {{"type", "longrope"}, {"short_factor", JsonArray{1.0}}}, "short_factor");
  refused("phi3",
          {{"type", "longrope"},
           {"short_factor", JsonArray{1, 1, 1, 1, 1, 1}},
           {"long_factor", JsonArray{1, 1, 1, 1, 1, 0}}},
          "long_factor");
  refused("phi3", {{"type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 1e300}},
          "partial_rotary_factor");
  refused("phi3", {{"type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 0.3}},
          "partial_rotary_factor");
}

TEST(HfConfig, DynamicRopeReachesBeyondTheTrainedLength) {
  EXPECT_EQ(Copy("llama_dynamic").config()->max_model_len(), 8 * 24);
  EXPECT_EQ(Copy("llama3_gqa").config()->max_model_len(),
            Copy("llama3_gqa").config()->max_position_embeddings);
}

TEST(HfConfig, AbsentKeysHaveTheDefaultsOfTheArchitecture) {
  EXPECT_TRUE(Copy("gemma2").set("tie_word_embeddings", nullptr).config()->tie_word_embeddings);
  EXPECT_FALSE(Copy("qwen2").set("tie_word_embeddings", nullptr).config()->tie_word_embeddings);
  const auto gemma = Copy("gemma2").set("layer_types", nullptr).config().value();
  EXPECT_EQ(gemma.layers[0].sliding_window, 16);
  EXPECT_EQ(gemma.layers[1].sliding_window, 0);
  // Old files of Llama 4 have an empty list and a number for a flag.
  const auto llama4 = Copy("llama4_scout")
                          .set("no_rope_layers", JsonArray{})
                          .set("attn_temperature_tuning", 4)
                          .config()
                          .value();
  EXPECT_EQ(llama4.layers[3].rope, LayerRope::kNone);
  EXPECT_EQ(llama4.layers[3].attention_chunk_size, 0);
  EXPECT_EQ(llama4.layers[4].rope, LayerRope::kGlobal);
  EXPECT_EQ(llama4.layers[4].attention_chunk_size, 16);
  EXPECT_FLOAT_EQ(llama4.attn_scale, 0.3f);
  EXPECT_EQ(Copy("llama4_scout").set("attn_temperature_tuning", false).config()->attn_scale, 0);
}

TEST(RedundantTensors, AreSaidInOneLine) {
  ::testing::internal::CaptureStderr();
  const Status status = Copy("llama4_conditional").load();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_NE(log.find("1 of the part 'multi_modal_projector.'"), std::string::npos) << log;
  EXPECT_NE(log.find("25 of the part 'vision_model.'"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST(RedundantTensors, RepeatedHeadsAndFrequenciesMayStay) {
  for (const char* name : {"lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    const Status status = Copy("qwen3").add_tensor(name).load();  // its embedding is tied
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(RedundantTensors, AnyOtherIsAnError) {
  for (const char* name : {"model.layers.0.self_attn.q_proj.scale", "vision_model.embedding",
                           "model.layers.9.input_layernorm.weight"}) {
    const Status status = Copy("qwen3").add_tensor(name).load();
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace octavo::model
