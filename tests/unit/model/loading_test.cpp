// Strict loading: what is missing, doubled, unknown, of the wrong shape or nonsensical is named.
#include <gtest/gtest.h>

#include "model/tensor_names.h"
#include "octavo/model.h"
#include "support/temp_path.h"
#include "support/tiny_llama.h"

namespace octavo {
namespace {

using testing::TinyLlama;

// Loads a changed file; the error must hold every one of `expected`, and the file's name.
void expect_refused(const TinyLlama& spec, std::initializer_list<const char*> expected) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, spec);
  const auto model = Model::load(path, {});
  ASSERT_FALSE(model.ok()) << "accepted; expected: " << *expected.begin();
  const std::string& message = model.status().message();
  EXPECT_NE(message.find(path), std::string::npos) << message;
  for (const char* part : expected) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
  }
}

TinyLlama with_metadata(const char* key, const Json& value) {
  TinyLlama spec;
  spec.edit_metadata = [=](JsonObject& metadata) { metadata[key] = value; };
  return spec;
}

TinyLlama without_tensor(const char* gone) {
  TinyLlama spec;
  spec.edit_tensor = [=](std::string& name, DType&, Shape&) { return name != gone; };
  return spec;
}

TEST(Loading, EveryTensorIsNeeded) {
  for (const char* name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.1.attn_q.weight",
        "blk.0.attn_k.weight", "blk.1.attn_v.weight", "blk.0.attn_output.weight",
        "blk.1.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
        "blk.1.ffn_down.weight"}) {
    expect_refused(without_tensor(name), {name, "missing"});
  }
}

TEST(Loading, UnknownTensorsAreNamed) {
  TinyLlama spec;
  spec.edit_tensor = [](std::string& name, DType&, Shape&) {
    if (name == "blk.1.ffn_down.weight") name = "blk.1.ffn_dawn.weight";
    return true;
  };
  expect_refused(spec, {"blk.1.ffn_down.weight", "missing"});
  TinyLlama more = {};
  more.num_hidden_layers = 3;
  more.edit_metadata = [](JsonObject& metadata) { metadata["llama.block_count"] = 2; };
  expect_refused(more, {"blk.2.attn_norm.weight"});
}

TEST(Loading, ShapesAreChecked) {
  for (const char* victim : {"blk.0.attn_q.weight", "blk.1.ffn_up.weight", "output_norm.weight"}) {
    TinyLlama spec;
    spec.edit_tensor = [=](std::string& name, DType&, Shape& shape) {
      if (name == victim) shape[0] += 32;
      return true;
    };
    expect_refused(spec, {victim, "shape"});
  }
}

TEST(Loading, NonsenseInTheMetadataIsRefusedByKey) {
  expect_refused(with_metadata("llama.block_count", 0), {"llama.block_count"});
  expect_refused(with_metadata("llama.block_count", 4000000000u), {"llama.block_count"});
  expect_refused(with_metadata("llama.block_count", 4000), {"blk.2.attn_norm.weight"});
  expect_refused(with_metadata("llama.embedding_length", 0), {"llama.embedding_length"});
  expect_refused(with_metadata("llama.attention.head_count", 0), {"llama.attention.head_count"});
  expect_refused(with_metadata("llama.attention.head_count_kv", 3), {"multiple"});
  TinyLlama odd;
  odd.edit_metadata = [](JsonObject& metadata) {
    metadata["llama.attention.key_length"] = 15;
    metadata["llama.attention.value_length"] = 15;
  };
  expect_refused(odd, {"15"});
  expect_refused(with_metadata("llama.attention.value_length", 32), {"value_length"});
  expect_refused(with_metadata("llama.context_length", 0), {"llama.context_length"});
  expect_refused(with_metadata("llama.rope.freq_base", -1.0), {"llama.rope.freq_base"});
  expect_refused(with_metadata("llama.attention.layer_norm_rms_epsilon", 0.0), {"epsilon"});
  expect_refused(with_metadata("llama.rope.dimension_count", 8), {"rope.dimension_count"});
  expect_refused(with_metadata("llama.block_count", "two"), {"llama.block_count", "integer"});
}

TEST(Loading, WhatChangesTheMathsAndIsNotImplementedIsRefused) {
  expect_refused(with_metadata("general.architecture", "mamba"), {"mamba"});
  expect_refused(with_metadata("llama.rope.scaling.type", "spiral"), {"spiral"});
  expect_refused(with_metadata("llama.rope.scaling.type", "yarn"), {"llama.rope.scaling.factor"});
  expect_refused(with_metadata("llama.expert_count", 8), {"llama.expert_used_count"});
  expect_refused(with_metadata("llama.attention.scale", -1.0), {"llama.attention.scale"});
  expect_refused(with_metadata("llama.attention.sliding_window", 4096), {"sliding_window"});
  expect_refused(with_metadata("llama.logit_scale", 2.0), {"llama.logit_scale"});
}

TEST(Loading, ZeroMeansNotUsed) {
  const std::string path = testing::temp_path("model.gguf");
  testing::write_tiny_llama(path, with_metadata("llama.expert_count", 0));
  EXPECT_TRUE(Model::load(path, {}).ok());
}

// A linear factor of 2 halves every angle: position 2p then looks like p.
TEST(Loading, LinearRopeScalingIsApplied) {
  const std::string path = testing::temp_path("model.gguf");
  const auto logits_of = [&](const TinyLlama& spec) {
    testing::write_tiny_llama(path, spec);
    LoadOptions options;
    options.backend = "ref";
    auto model = Model::load(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    const std::vector<TokenId> ids = {1, 2, 3, 4, 5, 6, 7, 8};
    return (*model)->logits(ids, LogitsPositions::kLast)->values;
  };
  const auto plain = logits_of({});
  TinyLlama scaled;
  scaled.edit_metadata = [](JsonObject& metadata) {
    metadata["llama.rope.scaling.type"] = "linear";
    metadata["llama.rope.scaling.factor"] = 2.0;
  };
  const auto linear = logits_of(scaled);
  EXPECT_NE(plain, linear);
  scaled.edit_metadata = [](JsonObject& metadata) { metadata["llama.rope.scale_linear"] = 2.0; };
  EXPECT_EQ(linear, logits_of(scaled));
  scaled.edit_metadata = [](JsonObject& metadata) {
    metadata["llama.rope.scaling.type"] = "linear";
    metadata["llama.rope.scaling.factor"] = 1.0;
  };
  EXPECT_EQ(plain, logits_of(scaled));
}

TEST(TensorNames, TranslatesEveryKind) {
  using model::gguf_tensor_name;
  using model::NormPlacement;
  constexpr NormPlacement kBefore = NormPlacement::kBefore;
  EXPECT_EQ(gguf_tensor_name("model.embed_tokens.weight", kBefore), "token_embd.weight");
  EXPECT_EQ(gguf_tensor_name("lm_head.weight", kBefore), "output.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.31.self_attn.q_proj.bias", kBefore),
            "blk.31.attn_q.bias");
  EXPECT_EQ(gguf_tensor_name("model.layers.0.mlp.down_proj.weight", kBefore),
            "blk.0.ffn_down.weight");
  const char* norm = "model.layers.2.post_attention_layernorm.weight";
  EXPECT_EQ(gguf_tensor_name(norm, kBefore), "blk.2.ffn_norm.weight");
  EXPECT_EQ(gguf_tensor_name(norm, NormPlacement::kAround), "blk.2.post_attention_norm.weight");
}

}  // namespace
}  // namespace octavo
