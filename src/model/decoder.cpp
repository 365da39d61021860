#include "model/decoder.h"

#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "model/attention_block.h"
#include "model/mlp_block.h"

namespace octavo::model {
namespace {

using ops::Mat;

struct Layer {
  AttentionBlock attention;
  MlpBlock mlp;
};

class Decoder final : public CausalLM {
 public:
  explicit Decoder(const ModelConfig& config) : config_(config) {}

  Status load(WeightLoader& loader, const Limits& limits);

  const ModelConfig& config() const override { return config_; }
  const WeightTotals& totals() const override { return totals_; }
  void forward(ops::ExecContext& ctx, const ForwardBatch& batch, const KvCache& kv,
               const Mat& logits, const Mat& hidden) override;

 private:
  Status load_rope(WeightLoader& loader);
  Status load_rope_factors(WeightLoader& loader);
  const RopeTable* rope_of(const Layer& layer) const;

  ModelConfig config_;
  WeightTotals totals_;
  const ops::Ops* ops_ = nullptr;
  ops::Weight embed_tokens_;
  ops::Weight lm_head_;  // unused where embeddings are tied
  Buffer norm_;
  RopeTable rope_, local_rope_;
  std::vector<Layer> layers_;
  Activations scratch_;
};

Status Decoder::load(WeightLoader& loader, const Limits& limits) {
  ops_ = &loader.ops();
  embed_tokens_ = OCTAVO_TRY(
      loader.matrix("model.embed_tokens.weight", config_.vocab_size, config_.hidden_size));
  int64_t idle_bytes = 0;
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    auto attention = OCTAVO_TRY(AttentionBlock::load(loader, config_, i));
    auto mlp = OCTAVO_TRY(MlpBlock::load(loader, config_, i));
    layers_.push_back({std::move(attention), std::move(mlp)});
    idle_bytes += layers_.back().mlp.idle_bytes(config_);
  }
  norm_ = OCTAVO_TRY(loader.norm("model.norm.weight", config_.hidden_size));
  if (!config_.tie_word_embeddings) {
    lm_head_ = OCTAVO_TRY(loader.matrix("lm_head.weight", config_.vocab_size, config_.hidden_size));
    idle_bytes += embed_tokens_.size_bytes();  // of which a step reads a single row
  }
  OCTAVO_TRY(load_rope(loader));
  OCTAVO_TRY(loader.finish());
  totals_ = loader.totals();
  totals_.decode_bytes = totals_.weight_bytes - idle_bytes;
  scratch_ =
      OCTAVO_TRY(Activations::create(loader.device(), config_, limits, ops_->activation_dtype));
  totals_.scratch_bytes = scratch_.memory.size_bytes;
  return {};
}

// The lists by which frequencies are divided are tensors in a GGUF file.
Status Decoder::load_rope_factors(WeightLoader& loader) {
  const int64_t half = config_.rotary_dim / 2;
  const auto read = [&](const char* name) -> Result<std::vector<double>> {
    const std::vector<float> values = OCTAVO_TRY(loader.host_vector(name, half));
    for (int64_t i = 0; i < half; ++i) {
      if (!(values[i] > 0)) {
        return data_loss(
            format("{}: tensor '{}' holds {} at {}", loader.path(), name, values[i], i));
      }
    }
    return std::vector<double>(values.begin(), values.end());
  };
  RopeParameters& rope = config_.rope;
  if (loader.has("rope_freqs.weight")) {
    rope.short_factor = rope.long_factor = OCTAVO_TRY(read("rope_freqs.weight"));
  } else {
    rope.short_factor = OCTAVO_TRY(read("rope_factors_short.weight"));
    rope.long_factor = OCTAVO_TRY(read("rope_factors_long.weight"));
  }
  return {};
}

Status Decoder::load_rope(WeightLoader& loader) {
  if (loader.is_gguf() && config_.rope.rope_type == RopeType::kLongrope) {
    OCTAVO_TRY(load_rope_factors(loader));
  }
  const auto table = [&](const RopeParameters& rope) -> Result<RopeTable> {
    RopeTable result;
    result.attention_factor = static_cast<float>(rope.attention_factor);
    if (rope.depends_on_length()) return result;
    result.inv_freq =
        OCTAVO_TRY(loader.upload(rope_inv_freq(rope, config_.rotary_dim, 0), "rope frequencies"));
    return result;
  };
  rope_ = OCTAVO_TRY(table(config_.rope));
  if (config_.local_rope) local_rope_ = OCTAVO_TRY(table(*config_.local_rope));
  return {};
}

const RopeTable* Decoder::rope_of(const Layer& layer) const {
  switch (layer.attention.rope()) {
    case LayerRope::kNone:
      return nullptr;
    case LayerRope::kGlobal:
      return &rope_;
    case LayerRope::kLocal:
      return &local_rope_;
  }
  return nullptr;
}

void Decoder::forward(ops::ExecContext& ctx, const ForwardBatch& batch, const KvCache& kv,
                      const Mat& logits, const Mat& hidden) {
  const Step step{config_, *ops_, ctx, batch, scratch_};
  const Mat x = scratch_.x.top(batch.seqs.num_tokens);
  ops_->embed(ctx, {x, &embed_tokens_, batch.token_ids, config_.embedding_scale});
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    layers_[i].attention.run(step, kv.layer(i), batch.of_group(kv.group(i)), rope_of(layers_[i]));
    layers_[i].mlp.run(step);
  }
  if (batch.num_hidden_rows > 0) {
    ops_->gather_rows(ctx, {hidden, x, batch.hidden_rows});
    ops_->rms_norm(ctx, {hidden, hidden, norm_.as<float>(), config_.rms_norm_eps});
  }
  if (batch.num_logit_rows == 0) return;
  ops_->norm_lm_head(*ops_, ctx,
                     {logits, x, batch.logit_rows, norm_.as<float>(), config_.rms_norm_eps,
                      config_.tie_word_embeddings ? &embed_tokens_ : &lm_head_,
                      scratch_.head.top(batch.num_logit_rows), config_.final_logit_softcapping});
}

}  // namespace

Result<std::unique_ptr<CausalLM>> build_decoder(const ModelConfig& config, WeightLoader& loader,
                                                const Limits& limits) {
  auto decoder = std::make_unique<Decoder>(config);
  OCTAVO_TRY(decoder->load(loader, limits));
  return std::unique_ptr<CausalLM>(std::move(decoder));
}

}  // namespace octavo::model
