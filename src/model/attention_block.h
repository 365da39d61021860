// AttentionBlock: one layer's attention from its norm to the sum with the residual stream, with
// what architectures vary: where norms stand, norms of q and k, which positions are seen, rotation.
#pragma once

#include <string>

#include "model/activations.h"
#include "model/weights.h"

namespace octavo::model {

// Rotary frequencies in device memory. Where they depend on a sequence's length the batch brings
// them, and inv_freq is empty.
struct RopeTable {
  Buffer inv_freq;  // [rotary_dim / 2]
  float attention_factor = 1;
};

class AttentionBlock {
 public:
  static Result<AttentionBlock> load(WeightLoader& loader, const ModelConfig& config,
                                     int64_t layer_index);

  // Adds to scratch.x; `seqs` has the block table of the layer's group, `rope` is the layer's, or
  // null where it does not rotate.
  void run(const Step& step, const ops::PagedKv& kv, const ops::SequenceBatch& seqs,
           const RopeTable* rope) const;

  LayerRope rope() const { return layer_.rope; }

 private:
  Status load_norms(WeightLoader& loader, const ModelConfig& config, const std::string& at);
  Status load_projections(WeightLoader& loader, const ModelConfig& config, const std::string& attn);
  Status load_qk_norms(WeightLoader& loader, const ModelConfig& config, const std::string& attn);

  LayerConfig layer_;
  Buffer input_norm_;   // [hidden_size]; empty where the block reads x as it is
  Buffer output_norm_;  // [hidden_size]; empty where the result is added as it is
  ops::QkNorm qk_norm_ = ops::QkNorm::kNone;
  Buffer q_norm_, k_norm_;
  ops::Weight q_proj_, k_proj_, v_proj_, o_proj_;
  Buffer q_bias_, k_bias_, v_bias_, o_bias_;  // empty where the checkpoint has none
};

}  // namespace octavo::model
