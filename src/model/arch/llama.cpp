#include "model/arch/llama.h"

#include <cmath>

#include "base/check.h"
#include "base/format.h"

namespace octavo::model {
namespace {

using ops::Mat;
using ops::Weight;

struct Layer {
  Buffer input_layernorm;  // [hidden_size]
  Weight q_proj, k_proj, v_proj, o_proj;
  Buffer q_bias, k_bias, v_bias, o_bias;  // empty where the checkpoint has none
  Buffer post_attention_layernorm;        // [hidden_size]
  Weight gate_proj, up_proj, down_proj;
  Buffer gate_bias, up_bias, down_bias;
};

// Scratch for one forward of up to max_num_batched_tokens rows.
struct Scratch {
  Buffer memory;
  Mat x, normed, q, k, v, attention, gate, up, head;
};

class Llama final : public CausalLM {
 public:
  static Result<std::unique_ptr<CausalLM>> build(const ModelConfig& config, WeightLoader& loader,
                                                 const Limits& limits) {
    auto model = std::make_unique<Llama>();
    model->config_ = config;
    model->ops_ = &loader.ops();
    OCTAVO_TRY(model->load(loader));
    OCTAVO_TRY(loader.finish());
    OCTAVO_TRY(model->allocate_scratch(loader.device(), limits));
    return std::unique_ptr<CausalLM>(std::move(model));
  }

  const ModelConfig& config() const override { return config_; }
  const WeightTotals& totals() const override { return totals_; }

  void forward(ops::ExecContext& ctx, const ForwardBatch& batch, const KvCache& kv,
               const Mat& logits) override {
    const int64_t n = batch.seqs.num_tokens;
    const Mat x = scratch_.x.top(n);
    ops_->embed(ctx, {x, &embed_tokens_, batch.token_ids});
    for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      run_layer(ctx, layers_[i], x, batch, kv.layer(i));
    }
    if (batch.num_logit_rows == 0) return;
    ops_->norm_lm_head(*ops_, ctx,
                       {logits, x, batch.logit_rows, norm_.as<float>(), config_.rms_norm_eps,
                        config_.tie_word_embeddings ? &embed_tokens_ : &lm_head_,
                        scratch_.head.top(batch.num_logit_rows)});
  }

 private:
  Status load(WeightLoader& loader);
  Status load_rope(WeightLoader& loader);
  Result<Layer> load_layer(WeightLoader& loader, int64_t index) const;
  Status allocate_scratch(Device& device, const Limits& limits);
  void run_layer(ops::ExecContext& ctx, const Layer& layer, const Mat& x, const ForwardBatch& batch,
                 const ops::PagedKv& kv) const;

  ModelConfig config_;
  WeightTotals totals_;
  const ops::Ops* ops_ = nullptr;
  Weight embed_tokens_;
  Weight lm_head_;  // unused where embeddings are tied
  Buffer norm_;
  Buffer inv_freq_;  // [head_dim / 2]
  std::vector<Layer> layers_;
  Scratch scratch_;
};

Status Llama::load(WeightLoader& loader) {
  embed_tokens_ = OCTAVO_TRY(
      loader.matrix("model.embed_tokens.weight", config_.vocab_size, config_.hidden_size));
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    layers_.push_back(OCTAVO_TRY(load_layer(loader, i)));
  }
  norm_ = OCTAVO_TRY(loader.vector("model.norm.weight", config_.hidden_size));
  if (!config_.tie_word_embeddings) {
    lm_head_ = OCTAVO_TRY(loader.matrix("lm_head.weight", config_.vocab_size, config_.hidden_size));
  }
  OCTAVO_TRY(load_rope(loader));
  totals_ = loader.totals();
  // Of an embedding that is not the head as well, a step reads a single row.
  totals_.decode_bytes =
      totals_.weight_bytes - (config_.tie_word_embeddings ? 0 : embed_tokens_.size_bytes());
  return {};
}

Status Llama::load_rope(WeightLoader& loader) {
  const int64_t half = config_.head_dim / 2;
  std::vector<float> inv_freq =
      rope_inv_freq(config_.rope, config_.head_dim, config_.max_position_embeddings);
  if (config_.rope.rope_type == RopeType::kFactors) {
    const auto factors = OCTAVO_TRY(loader.host_vector("rope_freqs.weight", half));
    for (int64_t i = 0; i < half; ++i) {
      if (!(factors[i] > 0)) {
        return data_loss(format("tensor 'rope_freqs.weight' holds {} at {}", factors[i], i));
      }
      inv_freq[i] /= factors[i];
    }
  }
  inv_freq_ = OCTAVO_TRY(loader.upload(inv_freq, "rope frequencies"));
  return {};
}

Result<Layer> Llama::load_layer(WeightLoader& loader, int64_t index) const {
  const int64_t hidden = config_.hidden_size;
  const int64_t inter = config_.intermediate_size;
  const int64_t q_dim = config_.num_attention_heads * config_.head_dim;
  const int64_t kv_dim = config_.num_key_value_heads * config_.head_dim;
  const RowOrder rotary{config_.permuted_qk, config_.head_dim};
  const std::string at = format("model.layers.{}.", index);
  const std::string attn = at + "self_attn.";
  const std::string mlp = at + "mlp.";
  Layer layer;
  layer.input_layernorm = OCTAVO_TRY(loader.vector(at + "input_layernorm.weight", hidden));
  layer.q_proj = OCTAVO_TRY(loader.matrix(attn + "q_proj.weight", q_dim, hidden, rotary));
  layer.k_proj = OCTAVO_TRY(loader.matrix(attn + "k_proj.weight", kv_dim, hidden, rotary));
  layer.v_proj = OCTAVO_TRY(loader.matrix(attn + "v_proj.weight", kv_dim, hidden));
  layer.o_proj = OCTAVO_TRY(loader.matrix(attn + "o_proj.weight", hidden, q_dim));
  layer.q_bias = OCTAVO_TRY(loader.optional_vector(attn + "q_proj.bias", q_dim, rotary));
  layer.k_bias = OCTAVO_TRY(loader.optional_vector(attn + "k_proj.bias", kv_dim, rotary));
  layer.v_bias = OCTAVO_TRY(loader.optional_vector(attn + "v_proj.bias", kv_dim));
  layer.o_bias = OCTAVO_TRY(loader.optional_vector(attn + "o_proj.bias", hidden));
  layer.post_attention_layernorm =
      OCTAVO_TRY(loader.vector(at + "post_attention_layernorm.weight", hidden));
  layer.gate_proj = OCTAVO_TRY(loader.matrix(mlp + "gate_proj.weight", inter, hidden));
  layer.up_proj = OCTAVO_TRY(loader.matrix(mlp + "up_proj.weight", inter, hidden));
  layer.down_proj = OCTAVO_TRY(loader.matrix(mlp + "down_proj.weight", hidden, inter));
  layer.gate_bias = OCTAVO_TRY(loader.optional_vector(mlp + "gate_proj.bias", inter));
  layer.up_bias = OCTAVO_TRY(loader.optional_vector(mlp + "up_proj.bias", inter));
  layer.down_bias = OCTAVO_TRY(loader.optional_vector(mlp + "down_proj.bias", hidden));
  return layer;
}

Status Llama::allocate_scratch(Device& device, const Limits& limits) {
  const int64_t rows = limits.max_num_batched_tokens;
  const int64_t hidden = config_.hidden_size;
  const int64_t q_dim = config_.num_attention_heads * config_.head_dim;
  const int64_t kv_dim = config_.num_key_value_heads * config_.head_dim;
  const int64_t inter = config_.intermediate_size;
  const int64_t values =
      rows * (2 * hidden + 2 * q_dim + 2 * kv_dim + 2 * inter) + limits.max_logit_rows * hidden;
  scratch_.memory = OCTAVO_TRY(device.allocate(values * static_cast<int64_t>(sizeof(float)),
                                               format("activations of {} tokens", rows)));
  totals_.scratch_bytes = scratch_.memory.size_bytes;
  auto* next = scratch_.memory.as<float>();
  const auto carve = [&](int64_t num_rows, int64_t cols) {
    const Mat mat(next, DType::kF32, num_rows, cols);
    next += num_rows * cols;
    return mat;
  };
  scratch_.x = carve(rows, hidden);
  scratch_.normed = carve(rows, hidden);
  scratch_.q = carve(rows, q_dim);
  scratch_.k = carve(rows, kv_dim);
  scratch_.v = carve(rows, kv_dim);
  scratch_.attention = carve(rows, q_dim);
  scratch_.gate = carve(rows, inter);
  scratch_.up = carve(rows, inter);
  scratch_.head = carve(limits.max_logit_rows, hidden);
  return {};
}

void Llama::run_layer(ops::ExecContext& ctx, const Layer& layer, const Mat& x,
                      const ForwardBatch& batch, const ops::PagedKv& kv) const {
  const int64_t n = x.rows;
  const Mat normed = scratch_.normed.top(n);
  const Mat q = scratch_.q.top(n);
  const Mat attention = scratch_.attention.top(n);
  ops::NormQkvRopeWriteArgs qkv;
  qkv.x = x;
  qkv.norm_weight = layer.input_layernorm.as<float>();
  qkv.eps = config_.rms_norm_eps;
  qkv.q_proj = &layer.q_proj;
  qkv.k_proj = &layer.k_proj;
  qkv.v_proj = &layer.v_proj;
  qkv.q_bias = layer.q_bias.as<float>();
  qkv.k_bias = layer.k_bias.as<float>();
  qkv.v_bias = layer.v_bias.as<float>();
  qkv.inv_freq = inv_freq_.as<float>();
  qkv.rotary_dim = config_.head_dim;
  qkv.attention_factor = static_cast<float>(config_.rope.attention_factor);
  qkv.kv = kv;
  qkv.batch = batch.seqs;
  qkv.q = q;
  qkv.normed = normed;
  qkv.k = scratch_.k.top(n);
  qkv.v = scratch_.v.top(n);
  ops_->norm_qkv_rope_write(*ops_, ctx, qkv);

  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
  ops_->attention(ctx, {attention, q, kv, batch.seqs, config_.num_attention_heads, scale});
  ops_->linear_residual(*ops_, ctx,
                        {x, attention, &layer.o_proj, layer.o_bias.as<float>(), normed});

  ops::NormGatedMlpArgs mlp;
  mlp.x = x;
  mlp.norm_weight = layer.post_attention_layernorm.as<float>();
  mlp.eps = config_.rms_norm_eps;
  mlp.gate_proj = &layer.gate_proj;
  mlp.up_proj = &layer.up_proj;
  mlp.down_proj = &layer.down_proj;
  mlp.gate_bias = layer.gate_bias.as<float>();
  mlp.up_bias = layer.up_bias.as<float>();
  mlp.down_bias = layer.down_bias.as<float>();
  mlp.normed = normed;
  mlp.gate = scratch_.gate.top(n);
  mlp.up = scratch_.up.top(n);
  ops_->norm_gated_mlp(*ops_, ctx, mlp);
}

}  // namespace

Result<std::unique_ptr<CausalLM>> build_llama(const ModelConfig& config, WeightLoader& loader,
                                              const Limits& limits) {
  return Llama::build(config, loader, limits);
}

}  // namespace octavo::model
