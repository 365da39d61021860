#include "model/attention_block.h"

#include "base/check.h"
#include "base/format.h"

namespace octavo::model {

Result<AttentionBlock> AttentionBlock::load(WeightLoader& loader, const ModelConfig& config,
                                            int64_t layer_index) {
  AttentionBlock block;
  block.layer_ = config.layers[layer_index];
  const std::string at = format("model.layers.{}.", layer_index);
  OCTAVO_TRY(block.load_norms(loader, config, at));
  OCTAVO_TRY(block.load_projections(loader, config, at + "self_attn."));
  OCTAVO_TRY(block.load_qk_norms(loader, config, at + "self_attn."));
  return block;
}

Status AttentionBlock::load_norms(WeightLoader& loader, const ModelConfig& config,
                                  const std::string& at) {
  const NormPlacement norms = config.traits.norms;
  if (norms != NormPlacement::kAfter) {
    input_norm_ = OCTAVO_TRY(loader.norm(at + "input_layernorm.weight", config.hidden_size));
  }
  if (norms != NormPlacement::kBefore) {
    output_norm_ =
        OCTAVO_TRY(loader.norm(at + "post_attention_layernorm.weight", config.hidden_size));
  }
  return {};
}

Status AttentionBlock::load_projections(WeightLoader& loader, const ModelConfig& config,
                                        const std::string& attn) {
  const int64_t hidden = config.hidden_size;
  const int64_t q_dim = config.num_attention_heads * config.head_dim;
  const int64_t kv_dim = config.num_key_value_heads * config.head_dim;
  o_proj_ = OCTAVO_TRY(loader.matrix(attn + "o_proj.weight", hidden, q_dim));
  if (config.traits.fused_projections) {
    auto parts = OCTAVO_TRY(
        loader.matrix_parts(attn + "qkv_proj.weight", {{q_dim, kv_dim, kv_dim}}, hidden));
    q_proj_ = std::move(parts[0]);
    k_proj_ = std::move(parts[1]);
    v_proj_ = std::move(parts[2]);
    return {};
  }
  const RowOrder rotary{config.traits.adjacent_pairs, config.head_dim};
  q_proj_ = OCTAVO_TRY(loader.matrix(attn + "q_proj.weight", q_dim, hidden, rotary));
  k_proj_ = OCTAVO_TRY(loader.matrix(attn + "k_proj.weight", kv_dim, hidden, rotary));
  v_proj_ = OCTAVO_TRY(loader.matrix(attn + "v_proj.weight", kv_dim, hidden));
  const auto bias = [&](const char* name, int64_t count, RowOrder order) {
    return config.traits.qkv_bias ? loader.vector(attn + name, count, order)
                                  : loader.optional_vector(attn + name, count, order);
  };
  q_bias_ = OCTAVO_TRY(bias("q_proj.bias", q_dim, rotary));
  k_bias_ = OCTAVO_TRY(bias("k_proj.bias", kv_dim, rotary));
  v_bias_ = OCTAVO_TRY(bias("v_proj.bias", kv_dim, {}));
  o_bias_ = OCTAVO_TRY(loader.optional_vector(attn + "o_proj.bias", hidden));
  return {};
}

Status AttentionBlock::load_qk_norms(WeightLoader& loader, const ModelConfig& config,
                                     const std::string& attn) {
  const Traits& traits = config.traits;
  if (traits.qk_norm == ops::QkNorm::kNone) return {};
  if (!traits.qk_norm_weights) {
    // Scaling to unit size commutes with the rotation, which keeps the size.
    if (layer_.rope == LayerRope::kNone) return {};
    qk_norm_ = traits.qk_norm;
    q_norm_ = k_norm_ =
        OCTAVO_TRY(loader.upload(std::vector<float>(config.head_dim, 1.0f), "q and k norms"));
    return {};
  }
  qk_norm_ = traits.qk_norm;
  const bool per_head = qk_norm_ == ops::QkNorm::kPerHead;
  const int64_t q_heads = per_head ? 1 : config.num_attention_heads;
  const int64_t kv_heads = per_head ? 1 : config.num_key_value_heads;
  q_norm_ = OCTAVO_TRY(loader.norm(attn + "q_norm.weight", q_heads * config.head_dim));
  k_norm_ = OCTAVO_TRY(loader.norm(attn + "k_norm.weight", kv_heads * config.head_dim));
  return {};
}

void AttentionBlock::run(const Step& step, const ops::PagedKv& kv, const ops::SequenceBatch& seqs,
                         const RopeTable* rope) const {
  const ModelConfig& config = step.config;
  const Activations& scratch = step.scratch;
  const int64_t n = step.num_tokens();
  ops::NormQkvRopeWriteArgs qkv;
  qkv.x = scratch.x.top(n);
  qkv.norm_weight = input_norm_.as<float>();
  qkv.eps = config.rms_norm_eps;
  qkv.q_proj = &q_proj_;
  qkv.k_proj = &k_proj_;
  qkv.v_proj = &v_proj_;
  qkv.q_bias = q_bias_.as<float>();
  qkv.k_bias = k_bias_.as<float>();
  qkv.v_bias = v_bias_.as<float>();
  qkv.qk_norm = qk_norm_;
  qkv.q_norm_weight = q_norm_.as<float>();
  qkv.k_norm_weight = k_norm_.as<float>();
  if (rope != nullptr) {
    const bool of_batch = rope->inv_freq.size_bytes == 0;
    qkv.inv_freq = of_batch ? step.batch.rope_inv_freq : rope->inv_freq.as<float>();
    qkv.rope_variants = of_batch ? step.batch.rope_variants : nullptr;
    qkv.rotary_dim = config.rotary_dim;
    qkv.attention_factor = rope->attention_factor;
  } else {
    qkv.query_attn_scale = config.attn_scale;
    qkv.query_floor_scale = config.floor_scale;
  }
  qkv.kv = kv;
  qkv.batch = seqs;
  qkv.q = scratch.q.top(n);
  qkv.normed = scratch.normed.top(n);
  qkv.k = scratch.k.top(n);
  qkv.v = scratch.v.top(n);
  step.ops.norm_qkv_rope_write(step.ops, step.ctx, qkv);

  const ops::Mat attention = scratch.attention.top(n);
  step.ops.attention(step.ctx, {attention, qkv.q, kv, seqs, config.num_attention_heads,
                                config.attention_scale, layer_.sliding_window,
                                layer_.attention_chunk_size, config.attn_logit_softcapping});
  step.ops.linear_residual(step.ops, step.ctx,
                           {qkv.x, attention, &o_proj_, o_bias_.as<float>(), qkv.normed,
                            output_norm_.as<float>(), config.rms_norm_eps});
}

}  // namespace octavo::model
