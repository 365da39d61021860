// MlpBlock: the other half of a layer, from its norm to the sum with the residual stream: a gated
// MLP, or a mixture of experts that are such.
#pragma once

#include <string>
#include <vector>

#include "model/activations.h"
#include "model/weights.h"

namespace octavo::model {

class MlpBlock {
 public:
  static Result<MlpBlock> load(WeightLoader& loader, const ModelConfig& config,
                               int64_t layer_index);

  // Adds to scratch.x.
  void run(const Step& step) const;

  // Bytes of weights that no token reads, for each that is decoded.
  int64_t idle_bytes(const ModelConfig& config) const;

 private:
  struct GatedMlp {
    ops::Weight gate_proj, up_proj, down_proj;
    Buffer gate_bias, up_bias, down_bias;  // empty where the checkpoint has none
  };

  Status load_norms(WeightLoader& loader, const ModelConfig& config, const std::string& at);
  Status load_dense(WeightLoader& loader, const ModelConfig& config, const std::string& mlp);
  Status load_moe(WeightLoader& loader, const ModelConfig& config, const std::string& at);
  Status load_experts_one_by_one(WeightLoader& loader, const MoeConfig& moe, int64_t hidden,
                                 const std::string& experts, const char* const names[3]);
  Status load_stacked_experts(WeightLoader& loader, const MoeConfig& moe, int64_t hidden,
                              const std::string& experts);
  Status load_transposed_experts(WeightLoader& loader, const MoeConfig& moe, int64_t hidden,
                                 const std::string& experts);
  void run_moe(const Step& step) const;

  Buffer input_norm_;   // [hidden_size]; empty where the block reads x as it is
  Buffer output_norm_;  // [hidden_size]; empty where the result is added as it is
  GatedMlp mlp_;        // of a mixture: the expert that all tokens share, if there is one
  ops::Weight router_;  // [num_experts, hidden_size]; of no rows where there are no experts
  std::vector<ops::Weight> gate_proj_, up_proj_, down_proj_;  // [num_experts]
};

}  // namespace octavo::model
