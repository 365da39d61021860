#include "model/mlp_block.h"

#include "base/check.h"
#include "base/format.h"

namespace octavo::model {
namespace {

// How Hugging Face calls the parts of a mixture of experts, below a layer.
struct MoeNames {
  const char* router;
  const char* experts;
  const char* projections[3];  // gate, up, down of an expert
};

MoeNames names_of(MoeKind kind) {
  if (kind == MoeKind::kMixtral) {
    return {"block_sparse_moe.gate", "block_sparse_moe.experts", {"w1", "w3", "w2"}};
  }
  if (kind == MoeKind::kLlama4) {
    return {"feed_forward.router", "feed_forward.experts", {"gate_proj", "up_proj", "down_proj"}};
  }
  return {"mlp.gate", "mlp.experts", {"gate_proj", "up_proj", "down_proj"}};
}

// In GGUF files all have the names of one.
constexpr MoeNames kGgufNames = {"mlp.gate", "mlp.experts", {}};

const char* mlp_name(const WeightLoader& loader, MoeKind kind) {
  return kind == MoeKind::kLlama4 && !loader.is_gguf() ? "feed_forward." : "mlp.";
}

}  // namespace

Result<MlpBlock> MlpBlock::load(WeightLoader& loader, const ModelConfig& config,
                                int64_t layer_index) {
  MlpBlock block;
  const std::string at = format("model.layers.{}.", layer_index);
  OCTAVO_TRY(block.load_norms(loader, config, at));
  if (config.layers[layer_index].moe) {
    OCTAVO_TRY(block.load_moe(loader, config, at));
  } else {
    OCTAVO_TRY(block.load_dense(loader, config, at + mlp_name(loader, config.traits.moe)));
  }
  return block;
}

Status MlpBlock::load_norms(WeightLoader& loader, const ModelConfig& config,
                            const std::string& at) {
  const int64_t hidden = config.hidden_size;
  switch (config.traits.norms) {
    case NormPlacement::kBefore:
      input_norm_ = OCTAVO_TRY(loader.norm(at + "post_attention_layernorm.weight", hidden));
      return {};
    case NormPlacement::kAround:
      input_norm_ = OCTAVO_TRY(loader.norm(at + "pre_feedforward_layernorm.weight", hidden));
      break;
    case NormPlacement::kAfter:
      break;
  }
  output_norm_ = OCTAVO_TRY(loader.norm(at + "post_feedforward_layernorm.weight", hidden));
  return {};
}

Status MlpBlock::load_dense(WeightLoader& loader, const ModelConfig& config,
                            const std::string& mlp) {
  const int64_t hidden = config.hidden_size;
  const int64_t inter = config.intermediate_size;
  mlp_.down_proj = OCTAVO_TRY(loader.matrix(mlp + "down_proj.weight", hidden, inter));
  if (config.traits.fused_projections) {
    auto parts =
        OCTAVO_TRY(loader.matrix_parts(mlp + "gate_up_proj.weight", {{inter, inter}}, hidden));
    mlp_.gate_proj = std::move(parts[0]);
    mlp_.up_proj = std::move(parts[1]);
    return {};
  }
  mlp_.gate_proj = OCTAVO_TRY(loader.matrix(mlp + "gate_proj.weight", inter, hidden));
  mlp_.up_proj = OCTAVO_TRY(loader.matrix(mlp + "up_proj.weight", inter, hidden));
  mlp_.gate_bias = OCTAVO_TRY(loader.optional_vector(mlp + "gate_proj.bias", inter));
  mlp_.up_bias = OCTAVO_TRY(loader.optional_vector(mlp + "up_proj.bias", inter));
  mlp_.down_bias = OCTAVO_TRY(loader.optional_vector(mlp + "down_proj.bias", hidden));
  return {};
}

Status MlpBlock::load_moe(WeightLoader& loader, const ModelConfig& config, const std::string& at) {
  const MoeConfig& moe = config.moe;
  const int64_t hidden = config.hidden_size;
  const MoeNames names = loader.is_gguf() ? kGgufNames : names_of(config.traits.moe);
  // Rounded logits could choose another expert.
  router_ = OCTAVO_TRY(
      loader.float_matrix(at + names.router + ".weight", moe.routing.num_experts, hidden));
  const std::string experts = at + names.experts + ".";
  if (loader.is_gguf()) {
    OCTAVO_TRY(load_stacked_experts(loader, moe, hidden, experts));
  } else if (config.traits.moe == MoeKind::kLlama4 && loader.has(experts + "gate_up_proj")) {
    // Where they are quantised, they may come one by one.
    OCTAVO_TRY(load_transposed_experts(loader, moe, hidden, experts));
  } else {
    OCTAVO_TRY(load_experts_one_by_one(loader, moe, hidden, experts, names.projections));
  }
  const int64_t shared = moe.shared_intermediate_size;
  if (shared == 0) return {};
  const std::string mlp = at + mlp_name(loader, config.traits.moe) + "shared_expert.";
  mlp_.gate_proj = OCTAVO_TRY(loader.matrix(mlp + "gate_proj.weight", shared, hidden));
  mlp_.up_proj = OCTAVO_TRY(loader.matrix(mlp + "up_proj.weight", shared, hidden));
  mlp_.down_proj = OCTAVO_TRY(loader.matrix(mlp + "down_proj.weight", hidden, shared));
  return {};
}

Status MlpBlock::load_experts_one_by_one(WeightLoader& loader, const MoeConfig& moe, int64_t hidden,
                                         const std::string& experts, const char* const names[3]) {
  const int64_t inter = moe.intermediate_size;
  for (int64_t e = 0; e < moe.routing.num_experts; ++e) {
    const auto name = [&](int i) { return format("{}{}.{}.weight", experts, e, names[i]); };
    gate_proj_.push_back(OCTAVO_TRY(loader.matrix(name(0), inter, hidden)));
    up_proj_.push_back(OCTAVO_TRY(loader.matrix(name(1), inter, hidden)));
    down_proj_.push_back(OCTAVO_TRY(loader.matrix(name(2), hidden, inter)));
  }
  return {};
}

Status MlpBlock::load_stacked_experts(WeightLoader& loader, const MoeConfig& moe, int64_t hidden,
                                      const std::string& experts) {
  const int64_t count = moe.routing.num_experts;
  const int64_t inter = moe.intermediate_size;
  gate_proj_ = OCTAVO_TRY(loader.matrix_stack(experts + "gate_proj.weight", count, inter, hidden));
  up_proj_ = OCTAVO_TRY(loader.matrix_stack(experts + "up_proj.weight", count, inter, hidden));
  down_proj_ = OCTAVO_TRY(loader.matrix_stack(experts + "down_proj.weight", count, hidden, inter));
  return {};
}

Status MlpBlock::load_transposed_experts(WeightLoader& loader, const MoeConfig& moe, int64_t hidden,
                                         const std::string& experts) {
  const int64_t count = moe.routing.num_experts;
  const int64_t inter = moe.intermediate_size;
  auto gate_up = OCTAVO_TRY(
      loader.transposed_stack(experts + "gate_up_proj", count, {{inter, inter}}, hidden));
  gate_proj_ = std::move(gate_up[0]);
  up_proj_ = std::move(gate_up[1]);
  auto down = OCTAVO_TRY(loader.transposed_stack(experts + "down_proj", count, {{hidden}}, inter));
  down_proj_ = std::move(down[0]);
  return {};
}

int64_t MlpBlock::idle_bytes(const ModelConfig& config) const {
  if (router_.rows == 0) return 0;
  const int64_t expert_bytes =
      gate_proj_[0].size_bytes() + up_proj_[0].size_bytes() + down_proj_[0].size_bytes();
  return (config.moe.routing.num_experts - config.moe.routing.top_k) * expert_bytes;
}

void MlpBlock::run(const Step& step) const {
  if (router_.rows > 0) return run_moe(step);
  const Activations& scratch = step.scratch;
  const int64_t n = step.num_tokens();
  ops::NormGatedMlpArgs args;
  args.x = scratch.x.top(n);
  args.norm_weight = input_norm_.as<float>();
  args.eps = step.config.rms_norm_eps;
  args.gate_proj = &mlp_.gate_proj;
  args.up_proj = &mlp_.up_proj;
  args.down_proj = &mlp_.down_proj;
  args.gate_bias = mlp_.gate_bias.as<float>();
  args.up_bias = mlp_.up_bias.as<float>();
  args.down_bias = mlp_.down_bias.as<float>();
  args.normed = scratch.normed.top(n);
  args.gate = scratch.gate.top(n).columns(0, mlp_.gate_proj.rows);
  args.up = scratch.up.top(n).columns(0, mlp_.up_proj.rows);
  args.activation = step.config.traits.activation;
  args.post_norm_weight = output_norm_.as<float>();
  step.ops.norm_gated_mlp(step.ops, step.ctx, args);
}

void MlpBlock::run_moe(const Step& step) const {
  const Activations& scratch = step.scratch;
  const int64_t n = step.num_tokens();
  const int64_t slots = n * step.config.moe.routing.top_k;
  ops::NormMoeArgs args;
  args.x = scratch.x.top(n);
  args.norm_weight = input_norm_.as<float>();
  args.eps = step.config.rms_norm_eps;
  args.router = &router_;
  args.routing = step.config.moe.routing;
  args.gate_proj = gate_proj_.data();
  args.up_proj = up_proj_.data();
  args.down_proj = down_proj_.data();
  if (mlp_.gate_proj.rows > 0) {
    args.shared_gate_proj = &mlp_.gate_proj;
    args.shared_up_proj = &mlp_.up_proj;
    args.shared_down_proj = &mlp_.down_proj;
    args.shared_gate = scratch.gate.top(n).columns(0, mlp_.gate_proj.rows);
    args.shared_up = scratch.up.top(n).columns(0, mlp_.up_proj.rows);
  }
  args.activation = step.config.traits.activation;
  args.normed = scratch.normed.top(n);
  args.router_logits = scratch.router_logits.top(n);
  args.plan = scratch.plan;
  args.expert_x = scratch.expert_x.top(slots);
  args.expert_gate = scratch.expert_gate.top(slots);
  args.expert_up = scratch.expert_up.top(slots);
  step.ops.norm_moe(step.ops, step.ctx, args);
}

}  // namespace octavo::model
